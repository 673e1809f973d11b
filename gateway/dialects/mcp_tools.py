"""Tool definitions as MCP lists them, in the form that all large clients take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects.definitions import requirements_object
from gateway.model import Json, JsonObject, ToolDefinition

LIST_TTL_MS = 60_000  # how long a client may show a list; a change is also announced
ID_MEMBER, REQUIREMENTS_MEMBER = "toolgate/id", "toolgate/requirements"

# At the root of a schema these make the model APIs refuse the tool, or the whole list.
CONDITIONS = ("if", "then", "else", "not", "dependentSchemas", "dependentRequired")
ONE_OF_SEVERAL = ("anyOf", "oneOf")
HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def tool_object(tool: ToolDefinition, *, exact: bool = False) -> JsonObject:
    """One entry of `tools/list`. With `exact` its schema is listed as it is validated."""
    meta: JsonObject = {ID_MEMBER: tool.id}
    if (requirements := requirements_object(tool.requires)) is not None:
        meta[REQUIREMENTS_MEMBER] = requirements
    schema = without_header_names(tool.input_schema)
    body: JsonObject = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description or tool.title or tool.name,
        "inputSchema": schema | {"type": "object"} if exact else compatible(schema),
        "annotations": {HINTS[name]: value for name, value in tool.hints.items()} or None,
        "_meta": meta,
    }
    return {member: value for member, value in body.items() if value is not None}


def compatible(schema: JsonObject) -> JsonObject:
    """A schema whose root is a plain object, which every valid value of the original fits.

    Compositions at the root are taken off and their properties shown as the root's own. A property is required there
    only if each of them requires it.
    """
    plain = {key: value for key, value in schema.items() if key not in (*CONDITIONS, *ONE_OF_SEVERAL, "allOf", "type")}
    properties: JsonObject = dict(_object(schema.get("properties")))
    required = list(_names(schema.get("required")))
    for branch in _branches(schema, "allOf"):
        properties = {**_object(branch.get("properties")), **properties}
        required += [name for name in _names(branch.get("required")) if name not in required]
    for keyword in ONE_OF_SEVERAL:
        branches = _branches(schema, keyword)
        for branch in branches:
            properties = {**_object(branch.get("properties")), **properties}
        if branches:
            in_all = set.intersection(*(set(_names(branch.get("required"))) for branch in branches))
            required += sorted(in_all.difference(required))
    result: JsonObject = {"type": "object", **plain}
    if properties or "properties" in schema:
        result["properties"] = properties
    if required:
        result["required"] = required
    if result.get("additionalProperties") is False and properties.keys() != _object(schema.get("properties")).keys():
        del result["additionalProperties"]  # what a composition adds was not allowed beside it
    return result


def without_header_names(schema: Any) -> Any:
    """A schema without `x-mcp-header` at any property reachable by `properties`: we compare no such headers."""
    if not isinstance(schema, dict):
        return schema
    result = {key: value for key, value in schema.items() if key != "x-mcp-header"}
    if isinstance(schema.get("properties"), dict):
        result["properties"] = {name: without_header_names(inner) for name, inner in schema["properties"].items()}
    return result


def _branches(schema: JsonObject, keyword: str) -> list[JsonObject]:
    branches = schema.get(keyword)
    return [branch for branch in branches if isinstance(branch, dict)] if isinstance(branches, list) else []


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _names(value: Json) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()
