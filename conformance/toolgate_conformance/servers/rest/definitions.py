"""Checks of the definitions of tools in the list."""

from __future__ import annotations

import re
from typing import Any

from toolgate_conformance.http import Answer
from toolgate_conformance.registry import MUST, Registry
from toolgate_conformance.schemas import is_schema
from toolgate_conformance.servers.rest.forms import RFC, SPECIFIED, WITH_IDS
from toolgate_conformance.servers.rest.server import RestServer
from toolgate_conformance.servers.rest.tools import TOOL_ID, VERSION, Definition, input_schema, version_in

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
MODES = ("value", "error", "null")

check: Registry[RestServer] = Registry()


def _shown(definition: Definition) -> Any:
    """What a report calls a tool."""
    return definition.get("id", definition.get("name"))


@check(6, MUST, "List Tools, ToolDefinition", forms=WITH_IDS)
async def ids(server: RestServer) -> None:
    """Each tool has a unique id, such as `Toolkit.Tool@1.0.0`.

    Fix: List each version of a tool once, with its version in the id.
    """
    answer = await server.list_tools()
    found = [each.get("id") for each in await server.tools()]
    for each in found:
        is_valid = isinstance(each, str) and TOOL_ID.fullmatch(each) is not None
        answer.must(is_valid, f"An id such as Toolkit.Tool@1.0.0, not {each!r}.")
    answer.must(len(set(found)) == len(found), "No id twice.")


@check(7, MUST, "List Tools, ToolDefinition", forms=WITH_IDS)
async def versions(server: RestServer) -> None:
    """The `version` of each tool is `x.y.z` and matches its id.

    Fix: Write the version as three numbers, the same in `version` and in the id.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        version, in_id = each.get("version"), version_in(each.get("id"))
        if "version" not in each and server.form.name == "otc":  # where it is optional (openapi.json)
            continue
        found = VERSION.fullmatch(version) if isinstance(version, str) else None
        answer.must(found is not None, f"A version such as 1.0.0 for {_shown(each)}, not {version!r}.")
        numbers = None if found is None else tuple(map(int, found.groups()))
        answer.must(in_id in (None, numbers), f"The version {version!r} in the id {each.get('id')!r}, too.")


@check(8, MUST, "List Tools, ToolDefinition", forms=WITH_IDS)
async def names(server: RestServer) -> None:
    """The `name` of each tool is 1 to 64 letters, digits, `_` and `-`.

    Fix: Choose names that models accept, such as the id with _ instead of the dot.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        is_valid = isinstance(each.get("name"), str) and NAME.fullmatch(each["name"]) is not None
        answer.must(is_valid, f"A name of 1 to 64 of A-Z a-z 0-9 _ - for {_shown(each)}, not {each.get('name')!r}.")


@check(9, MUST, "List Tools, ToolDefinition")
async def descriptions(server: RestServer) -> None:
    """Each tool has a `description`.

    Fix: Describe what the tool does: models choose tools by it.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        answer.must(isinstance(each.get("description"), str), f"A string as the description of {_shown(each)}.")


@check(10, MUST, "List Tools, ToolDefinition")
async def input_schemas(server: RestServer) -> None:
    """The input schema of each tool is a JSON Schema of an object.

    Fix: Put the schema into input_schema.parameters in OTC, and into input_schema itself in OXP.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        schema = input_schema(server.form, each)
        if "input_schema" not in each and server.form.name in ("oxp", "oxp-env"):  # where it is optional (openapi.json)
            continue
        answer.must(isinstance(schema, dict), f"An object as the input schema of {_shown(each)}.")
        type_ = schema.get("type", "object")
        answer.must(type_ in ("object", ["object"]), f"The type object in the input schema of {_shown(each)}.")
        answer.must(is_schema(schema), f"A valid JSON Schema as the input schema of {_shown(each)}.")


@check(11, MUST, "Tool Requirements", forms=SPECIFIED)
async def requirements(server: RestServer) -> None:
    """The `requirements` of each tool have the specified form.

    Fix: Send authorization and secrets as arrays of objects with an id, and user_id as true or false.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        if each.get("requirements") is not None:
            _check_requirements(answer, each["requirements"], _shown(each))


def _check_requirements(answer: Answer, required: Any, tool: Any) -> None:
    answer.must(isinstance(required, dict), f"An object as the requirements of {tool}.")
    for kind in ("authorization", "secrets"):
        entries = required.get(kind, [])
        is_valid = isinstance(entries, list) and all(
            isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in entries
        )
        answer.must(is_valid, f"An array of objects with an id as {kind} of {tool}.")
    answer.must(isinstance(required.get("user_id", False), bool), f"true or false as user_id of {tool}.")


@check(17, MUST, "List Tools, ToolDefinition", forms=WITH_IDS)
async def output_schemas(server: RestServer) -> None:
    """The output schema of each tool is a JSON Schema or null.

    Fix: Send null for a tool that returns nothing.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        schema = each.get("output_schema")
        answer.must(schema is None or is_schema(schema), f"A valid JSON Schema as the output schema of {_shown(each)}.")


@check(18, MUST, "4.1 Tool Definition Schema", forms=RFC)
async def toolkits(server: RestServer) -> None:
    """Each tool names its toolkit and its output modes.

    Fix: Send toolkit with name and version; if there is an output, send its available_modes, too.
    """
    answer = await server.list_tools()
    for each in await server.tools():
        toolkit, output = each.get("toolkit"), each.get("output")
        for member in ("name", "version"):
            is_valid = isinstance(toolkit, dict) and isinstance(toolkit.get(member), str)
            answer.must(is_valid, f"A string as toolkit.{member} of {_shown(each)}.")
        if output is None:
            continue
        modes: Any = output.get("available_modes") if isinstance(output, dict) else None
        is_valid = isinstance(modes, list) and bool(modes) and all(mode in MODES for mode in modes)
        answer.must(is_valid, f"One or more of {', '.join(MODES)} in output.available_modes of {_shown(each)}.")
        if "value" in modes:
            answer.must("value" in output, f"A schema in output.value of {_shown(each)}.")
