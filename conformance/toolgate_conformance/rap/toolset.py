"""Checks of the toolset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.http import Answer
from toolgate_conformance.rap.common import is_json, is_name
from toolgate_conformance.rap.invocation import is_url, origin
from toolgate_conformance.rap.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.rap.server import RapServer
from toolgate_conformance.schemas import is_schema

NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
# Members that may be left out, and what they have to be otherwise.
TYPES = {str: "A text", bool: "true or false", dict: "An object"}
OF_TOOLSET = {"description": str, "needsMigration": bool}
OF_TOOL = {"annotations": dict, "displayScript": str}
OF_ANNOTATIONS = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}

check = Registry()


@check(
    1,
    MUST,
    "`GET /.well-known/rap-toolset` answers 200 with a JSON object",
    page="Toolsets",
    remedy="Serve the toolset there, below the URL that callers are given.",
)
async def discovery(server: RapServer) -> None:
    answer = await server.discover()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.document, dict), "A body that is a JSON object.")


@check(
    2,
    SHOULD,
    "The toolset has the content type `application/json`",
    page="Toolsets",
    remedy="Send Content-Type: application/json.",
)
async def discovery_is_json(server: RapServer) -> None:
    await server.toolset()
    answer = await server.discover()
    answer.must(is_json(answer.headers), "A content type application/json.")


@check(
    3,
    MUST,
    "The toolset has a `name` of 1 to 128 characters",
    page="Toolsets",
    remedy="Name the toolset.",
)
async def toolset_name(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(is_name(toolset.get("name")), f"A name of 1 to 128 characters, not {toolset.get('name')!r:.200}.")


@check(
    4,
    MUST,
    "The `endpoint` of the toolset is a URL",
    page="Toolsets",
    remedy="Name the whole URL that invocations are posted to, with http or https and the host.",
)
async def endpoint(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(is_url(toolset.get("endpoint")), f"An http or https URL, not {toolset.get('endpoint')!r:.200}.")


@check(
    5,
    MUST,
    "The toolset has at least one tool",
    page="Toolsets",
    remedy="Send `tools`, a list of objects; never an empty one.",
)
async def has_tools(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    tools = toolset.get("tools")
    fits = isinstance(tools, list) and bool(tools) and all(isinstance(each, dict) for each in tools)
    answer.must(fits, "A list of objects in `tools`.")


@check(
    6,
    MUST,
    "Each tool has a `name` of its own, of 1 to 128 characters",
    page="Toolsets",
    remedy="Give each tool a unique name: one invalid tool makes callers reject the whole toolset.",
)
async def tool_names(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    names = [each.get("name") for each in tools]
    for name in names:
        answer.must(is_name(name), f"A name of 1 to 128 characters, not {name!r:.200}.")
    answer.must(len(set(names)) == len(names), "Names that differ.")


@check(
    7,
    SHOULD,
    "Tool names consist of letters, digits, `_` and `-`",
    page="Toolsets",
    remedy="Use names that model providers accept.",
)
async def tool_name_characters(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        name = str(each.get("name"))
        answer.must(not name or NAME.fullmatch(name) is not None, f"A name of A-Z a-z 0-9 _ -, not {name!r:.200}.")


@check(
    8,
    MUST,
    "Each tool has a `description`",
    page="Toolsets",
    remedy="Say what the tool does: models read it.",
)
async def descriptions(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        said = each.get("description")
        answer.must(isinstance(said, str) and said != "", f"A description of {each.get('name')!r:.200}.")


@check(
    9,
    MUST,
    "The `inputSchema` of each tool is a JSON Schema",
    page="Toolsets",
    remedy="Send an object that is valid in draft 2020-12, or in the draft that $schema names.",
)
async def input_schemas(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        answer.must(is_schema(each.get("inputSchema")), f"A valid JSON Schema of {each.get('name')!r:.200}.")


@check(
    10,
    SHOULD,
    "The `inputSchema` describes an object and its members",
    page="Toolsets",
    remedy='Say "type": "object"; of a tool without arguments also "additionalProperties": false.',
)
async def schemas_of_objects(server: RapServer) -> None:
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


@check(
    11,
    MUST,
    "Optional members have the specified types",
    page="Toolsets",
    remedy="Flags are true or false, texts are strings, `annotations` is an object.",
)
async def optional_members(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    _typed_as(answer, toolset, OF_TOOLSET, "the toolset")
    for each in await server.tools():
        name = f"{each.get('name')!r:.200}"
        _typed_as(answer, each, OF_TOOL, name)
        _typed_as(answer, each.get("annotations") or {}, OF_ANNOTATIONS, f"the annotations of {name}")


@check(
    12,
    GOOD,
    "The `endpoint` is at the origin of the toolset",
    page="Toolsets",
    remedy="Use the host that callers know: careful callers post to no other. Behind a proxy, configure it.",
)
async def own_endpoint(server: RapServer) -> None:
    endpoint, answer = await server.endpoint(), await server.discover()
    answer.must(origin(endpoint) == origin(server.client.url), "The scheme, host and port that were asked.")


def _typed_as(answer: Answer, given: Any, kinds: Mapping[str, type], what: str) -> None:
    if not isinstance(given, dict):
        return
    for name, kind in kinds.items():
        if given.get(name) is not None:
            answer.must(isinstance(given[name], kind), f"{TYPES[kind]} as {name} of {what}.")
