"""Tool definitions as MCP lists them, and what models are told about all tools."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.model import JsonObject, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common.definitions import requirements_object
from gateway.protocols.mcp.callers.input_schemas import compatible, unlisted_name, without_header_names

LIST_TTL_MS = 60_000  # how long a client may show a list; a change is also announced
MAX_INSTRUCTIONS = 8192  # characters; clients show models all of them, or the first 2,000
ID_MEMBER, REQUIREMENTS_MEMBER = "toolgate/id", "toolgate/requirements"

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def tool_object(tool: ToolDefinition, *, exact: bool = False, is_modern: bool = True) -> JsonObject:
    """One entry of `tools/list`. With `exact` its input schema is listed as it is validated.

    Raises DefinitionError for a tool with which large clients would take no tool at all, unless `exact`.
    """
    meta: JsonObject = {**tool.mcp.get("_meta", {}), ID_MEMBER: tool.id}
    annotations = {name: tool.mcp[name] for name in ("title",) if name in tool.mcp}
    annotations |= {HINTS[name]: value for name, value in tool.hints.items()}
    if (requirements := requirements_object(tool.requires)) is not None:
        meta[REQUIREMENTS_MEMBER] = requirements
    schema = without_header_names(tool.input_schema)
    schema = {**schema, "type": "object"} if exact else compatible(schema)
    if not exact and (name := unlisted_name(schema)) is not None:
        raise DefinitionError(f"clients refuse arguments with names such as {name[:64]!r}")
    body: JsonObject = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description or tool.title or tool.name,
        "inputSchema": schema,
        "outputSchema": _promised(tool, is_modern=is_modern),
        "annotations": annotations or None,
        "icons": tool.mcp.get("icons"),
        "_meta": meta,
    }
    return {member: value for member, value in body.items() if value is not None}


def _promised(tool: ToolDefinition, *, is_modern: bool) -> JsonObject | None:
    """The output schema, if every result fits it: clients throw away those that do not.

    Legacy clients take no list in which one is not of an object (2025-11-25, Tool).
    """
    schema = tool.output_schema
    if not schema or not tool.enforces_output or not (is_modern or schema.get("type") == "object"):
        return None
    return schema


def instructions_of(own: str, toolkits: Mapping[str, str | None]) -> str:
    """What models are told: the operator's words, then what toolkits say of themselves, as far as there is room."""
    parts = [own] if own else []
    room = MAX_INSTRUCTIONS - len(own)
    for name, description in toolkits.items():
        line = f"{name}: {' '.join(description.split())}" if description else ""
        if line and len(line) < room:
            parts.append(line)
            room -= len(line) + 2
    return "\n\n".join(parts)
