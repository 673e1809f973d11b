"""Reads what an MCP server lists, tool by tool, as text, so that another process can do it."""

from __future__ import annotations

import hashlib
import re

from gateway.dialects import lists
from gateway.dialects.definitions import UnreadableTool
from gateway.dialects.listings import Gathered, Summary, decode_bounds, most_as_sent
from gateway.dialects.mcp_server import mirrored_arguments
from gateway.dialects.mcp_tools import HINTS
from gateway.jsontext import JsonError, encode
from gateway.model import Json, JsonObject, ToolDefinition
from gateway.naming import DEFAULT_VERSION, MAX_ID_LENGTH, DefinitionError, published_name

FOREIGN = re.compile(r"[^A-Za-z0-9_]")
MAX_SHOWN = 256  # characters of a name in a log


def read_tools(encoded_bounds: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads all pages of `tools/list` as one. Returns a Summary, then arrays of ToolDefinition, all JSON text."""
    bounds = decode_bounds(encoded_bounds)
    try:
        _, entries = lists.open_list(text, bounds.max_tools + 1, most_as_sent(bounds.max_schema_bytes))
    except (JsonError, DefinitionError) as exc:
        return (encode(Summary(failure=str(exc))),)
    gathered, owners = Gathered(bounds), dict[str, str]()
    for count, entry in gathered.numbered(entries):
        try:
            gathered.take(_definition(entry, bounds.toolkit, owners))
        except DefinitionError as exc:
            name = entry.get("name") if isinstance(entry, dict) else None
            shown = name[:MAX_SHOWN] if isinstance(name, str) and name else f"number {count} of the list"
            gathered.reject(shown, str(exc))
    return gathered.encoded("")


def _definition(entry: Json, toolkit: str, owners: dict[str, str]) -> ToolDefinition:
    """Reads one listed tool; `owners` are the names taken so far. Raises DefinitionError."""
    if isinstance(entry, UnreadableTool):
        raise DefinitionError(entry.reason)
    if not isinstance(entry, dict):
        raise DefinitionError("a listed tool is not an object")
    name = entry.get("name")
    if not isinstance(name, str) or not name or len(name) > MAX_ID_LENGTH:
        raise DefinitionError(f"a listed tool has no name of 1 to {MAX_ID_LENGTH} characters")
    schema = entry.get("inputSchema", {})
    if not isinstance(schema, dict):
        raise DefinitionError("its input schema is not an object")
    try:
        mirrored_arguments(schema)
    except ValueError as exc:
        raise DefinitionError(str(exc)) from exc
    execution = entry.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise DefinitionError("it runs only as a task of revision 2025-11-25, which is not spoken")
    word = FOREIGN.sub("_", name)
    if owners.setdefault(word, name) != name:  # two names that become one: both are kept
        word = f"{word[:48]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    tool = f"{toolkit}.{word}"
    title = _text(entry, "title") or _text(_object(entry, "annotations"), "title")
    return ToolDefinition(
        tool=tool,
        version=DEFAULT_VERSION,
        name=published_name(tool),
        description=_text(entry, "description") or title or name,
        input_schema=schema,
        output_schema=_output(entry),
        remote_id=name,
        title=title,
        hints=_hints(_object(entry, "annotations")),
    )


def _output(entry: JsonObject) -> JsonObject:
    """The schema of the value; that of any value if the tool has none."""
    schema = _object(entry, "outputSchema")
    if schema.get("x-fastmcp-wrap-result") is True:
        properties = schema.get("properties")
        inner = properties.get("result") if isinstance(properties, dict) else None
        if not isinstance(inner, dict):
            return {}
        definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        return {**definitions, **inner}
    return schema


def _hints(annotations: JsonObject) -> dict[str, bool]:
    found = {name: annotations.get(member) for name, member in HINTS.items()}
    return {name: value for name, value in found.items() if isinstance(value, bool)}


def _object(entry: JsonObject, member: str) -> JsonObject:
    value = entry.get(member)
    return value if isinstance(value, dict) else {}


def _text(entry: JsonObject, member: str) -> str | None:
    value = entry.get(member)
    return value if isinstance(value, str) and value else None
