"""Checks of the toolset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.http import Answer
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.schemas import is_schema
from toolgate_conformance.servers.rap.common import is_json, is_name
from toolgate_conformance.servers.rap.invocation import is_url, origin
from toolgate_conformance.servers.rap.server import RapServer

NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
# Members that may be left out, and what they have to be otherwise.
TYPES = {str: "A text", bool: "true or false", dict: "An object"}
OF_TOOLSET = {"description": str, "needsMigration": bool}
OF_TOOL = {"annotations": dict, "displayScript": str}
OF_ANNOTATIONS = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}

check: Registry[RapServer] = Registry()


@check(1, MUST, "Toolsets")
async def discovery(server: RapServer) -> None:
    """`GET /.well-known/rap-toolset` answers 200 with a JSON object.

    Fix: Serve the toolset there, below the URL that callers are given.
    """
    answer = await server.discover()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.document, dict), "A body that is a JSON object.")


@check(2, SHOULD, "Toolsets")
async def discovery_is_json(server: RapServer) -> None:
    """The toolset has the content type `application/json`.

    Fix: Send Content-Type: application/json.
    """
    await server.toolset()
    answer = await server.discover()
    answer.must(is_json(answer.headers), "A content type application/json.")


@check(3, MUST, "Toolsets")
async def toolset_name(server: RapServer) -> None:
    """The toolset has a `name` of 1 to 128 characters.

    Fix: Name the toolset.
    """
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(is_name(toolset.get("name")), f"A name of 1 to 128 characters, not {toolset.get('name')!r:.200}.")


@check(4, MUST, "Toolsets")
async def endpoint(server: RapServer) -> None:
    """The `endpoint` of the toolset is a URL.

    Fix: Name the whole URL that invocations are posted to, with http or https and the host.
    """
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(is_url(toolset.get("endpoint")), f"An http or https URL, not {toolset.get('endpoint')!r:.200}.")


@check(5, MUST, "Toolsets")
async def has_tools(server: RapServer) -> None:
    """The toolset has at least one tool.

    Fix: Send `tools`, a list of objects; never an empty one.
    """
    toolset, answer = await server.toolset(), await server.discover()
    tools = toolset.get("tools")
    fits = isinstance(tools, list) and bool(tools) and all(isinstance(each, dict) for each in tools)
    answer.must(fits, "A list of objects in `tools`.")


@check(6, MUST, "Toolsets")
async def tool_names(server: RapServer) -> None:
    """Each tool has a `name` of its own, of 1 to 128 characters.

    Fix: Give each tool a unique name: one invalid tool makes callers reject the whole toolset.
    """
    tools, answer = await server.tools(), await server.discover()
    names = [each.get("name") for each in tools]
    for name in names:
        answer.must(is_name(name), f"A name of 1 to 128 characters, not {name!r:.200}.")
    answer.must(len(set(names)) == len(names), "Names that differ.")


@check(7, SHOULD, "Toolsets")
async def tool_name_characters(server: RapServer) -> None:
    """Tool names consist of letters, digits, `_` and `-`.

    Fix: Use names that model providers accept.
    """
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        name = str(each.get("name"))
        answer.must(not name or NAME.fullmatch(name) is not None, f"A name of A-Z a-z 0-9 _ -, not {name!r:.200}.")


@check(8, MUST, "Toolsets")
async def descriptions(server: RapServer) -> None:
    """Each tool has a `description`.

    Fix: Say what the tool does: models read it.
    """
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        said = each.get("description")
        answer.must(isinstance(said, str) and said != "", f"A description of {each.get('name')!r:.200}.")


@check(9, MUST, "Toolsets")
async def input_schemas(server: RapServer) -> None:
    """The `inputSchema` of each tool is a JSON Schema.

    Fix: Send an object that is valid in draft 2020-12, or in the draft that $schema names.
    """
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        answer.must(is_schema(each.get("inputSchema")), f"A valid JSON Schema of {each.get('name')!r:.200}.")


@check(10, SHOULD, "Toolsets")
async def schemas_of_objects(server: RapServer) -> None:
    """The `inputSchema` describes an object and its members.

    Fix: Say "type": "object"; of a tool without arguments also "additionalProperties": false.
    """
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        schema, name = each.get("inputSchema"), f"{each.get('name')!r:.200}"
        if not isinstance(schema, dict) or not is_schema(schema):
            continue
        is_composed = bool(schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"})
        answer.must(is_composed or schema.get("type") == "object", f"An object as the arguments of {name}.")
        says_which = bool(schema.keys() - {"type", "title", "description", "$schema", "properties", "required"})
        says = says_which or bool(schema.get("properties"))
        answer.must(says, f"Arguments of {name}, or additionalProperties: false.")


@check(11, MUST, "Toolsets")
async def optional_members(server: RapServer) -> None:
    """Optional members have the specified types.

    Fix: Flags are true or false, texts are strings, `annotations` is an object.
    """
    toolset, answer = await server.toolset(), await server.discover()
    _typed_as(answer, toolset, OF_TOOLSET, "the toolset")
    for each in await server.tools():
        name = f"{each.get('name')!r:.200}"
        _typed_as(answer, each, OF_TOOL, name)
        _typed_as(answer, each.get("annotations") or {}, OF_ANNOTATIONS, f"the annotations of {name}")


@check(12, GOOD, "Toolsets")
async def own_endpoint(server: RapServer) -> None:
    """The `endpoint` is at the origin of the toolset.

    Fix: Use the host that callers know: careful callers post to no other. Behind a proxy, configure it.
    """
    endpoint, answer = await server.endpoint(), await server.discover()
    answer.must(origin(endpoint) == origin(server.client.url), "The scheme, host and port that were asked.")


def _typed_as(answer: Answer, given: Any, kinds: Mapping[str, type], what: str) -> None:
    if not isinstance(given, dict):
        return
    for name, kind in kinds.items():
        if given.get(name) is not None:
            answer.must(isinstance(given[name], kind), f"{TYPES[kind]} as {name} of {what}.")
