"""Checks of the definitions of tools in the list."""

from __future__ import annotations

import re

from gateway.conformance.rest.registry import MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer
from gateway.conformance.schemas import is_schema

TOOL_ID = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+(@\d+\.\d+\.\d+)?", re.ASCII)
VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
check = Registry()


@check(
    6,
    MUST,
    "Each tool has an id `Toolkit.Tool@x.y.z` of its own",
    page="List Tools, ToolDefinition",
    remedy="Name each version of each tool once.",
    forms=SPECIFIED - {"rfc"},
)
async def ids(server: RestServer) -> None:
    answer = await server.list_tools()
    found = [each.get("id") for each in await server.tools()]
    for each in found:
        fits = isinstance(each, str) and TOOL_ID.fullmatch(each) is not None
        answer.must(fits, f"An id such as Toolkit.Tool@1.0.0, not {each!r}.")
    answer.must(len(set(found)) == len(found), "Ids that differ.")


@check(
    7,
    MUST,
    "The `version` of each tool is `x.y.z`, and that of its id",
    page="List Tools, ToolDefinition",
    remedy="Write the version with three numbers, in both places.",
    forms=SPECIFIED - {"rfc"},
)
async def versions(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        version, (_, _, of_id) = each.get("version"), str(each.get("id")).partition("@")
        fits = isinstance(version, str) and VERSION.fullmatch(version) is not None
        answer.must(fits, f"A version such as 1.0.0 for {each.get('id')}, not {version!r}.")
        answer.must(of_id in ("", version), f"The same version in the id {each.get('id')!r} as {version!r}.")


@check(
    8,
    MUST,
    "The `name` of each tool has 1 to 64 letters, digits, `_` and `-`",
    page="List Tools, ToolDefinition",
    remedy="Make names that models take: the id with _ for the dot.",
    forms=SPECIFIED - {"rfc"},
)
async def names(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        fits = isinstance(each.get("name"), str) and NAME.fullmatch(each["name"]) is not None
        answer.must(fits, f"A name of 1 to 64 of A-Z a-z 0-9 _ - for {each.get('id')}, not {each.get('name')!r}.")


@check(
    9,
    MUST,
    "Each tool has a `description`",
    page="List Tools, ToolDefinition",
    remedy="Say what the tool does: models read it.",
)
async def descriptions(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        answer.must(isinstance(each.get("description"), str), f"A description of {each.get('id', each.get('name'))}.")


@check(
    10,
    MUST,
    "The input schema of each tool is a JSON Schema of an object",
    page="List Tools, ToolDefinition",
    remedy="In OTC it is in input_schema.parameters, in OXP it is input_schema itself.",
)
async def input_schemas(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        schema, name = server.form.input_schema(each), each.get("id", each.get("name"))
        answer.must(isinstance(schema, dict), f"A schema of the input of {name}.")
        answer.must(schema.get("type", "object") == "object", f"An object as the input of {name}.")
        answer.must(is_schema(schema), f"A valid JSON Schema as that of the input of {name}.")


@check(
    11,
    MUST,
    "The requirements of each tool are as specified",
    page="Tool Requirements",
    remedy="authorization and secrets are lists of objects with an id, user_id is true or false.",
    forms=SPECIFIED,
)
async def requirements(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        asked, name = each.get("requirements"), each.get("id", each.get("name"))
        if asked is None:
            continue
        answer.must(isinstance(asked, dict), f"An object as the requirements of {name}.")
        for kind in ("authorization", "secrets"):
            entries = asked.get(kind, [])
            fits = isinstance(entries, list) and all(
                isinstance(it, dict) and isinstance(it.get("id"), str) for it in entries
            )
            answer.must(fits, f"A list of objects with an id as {kind} of {name}.")
        answer.must(isinstance(asked.get("user_id", False), bool), f"true or false as user_id of {name}.")
