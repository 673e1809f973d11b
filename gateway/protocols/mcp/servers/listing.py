"""Reads what an MCP server lists, tool by tool, as text, so that another process can do it."""

from __future__ import annotations

import hashlib
import re

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gateway.core.jsontext import JsonError, encode
from gateway.core.model import Json, JsonObject, ToolDefinition
from gateway.core.tool_names import DEFAULT_VERSION, MAX_ID_LENGTH, DefinitionError, published_name, word
from gateway.protocols.common import entries as lists
from gateway.protocols.common.definitions import UnreadableTool, requirements_of
from gateway.protocols.common.listing import MAX_SHOWN, ListBuilder, Summary, decode_bounds, most_as_sent
from gateway.protocols.mcp.callers.tools import HINTS, ID_MEMBER, REQUIREMENTS_MEMBER
from gateway.protocols.mcp.servers.extras import icons_of, passed_on
from gateway.protocols.mcp.servers.requests import header_arguments_of

KEPT_LENGTH = 48  # of a tool's name that gets a digest
MAX_TTL_MS = 86_400_000  # a day
TRUSTED_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)@([0-9]+\.[0-9]+\.[0-9]+)", re.ASCII)


def read_tools(encoded_bounds: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads all pages of `tools/list` as one. Returns a Summary, then arrays of ToolDefinition, all JSON text."""
    bounds = decode_bounds(encoded_bounds)
    try:
        _, entries = lists.open_list(text, bounds.max_tools + 1, most_as_sent(bounds.max_schema_bytes))
    except (JsonError, DefinitionError) as exc:
        return (encode(Summary(failure=str(exc))),)
    builder, listed = ListBuilder(bounds), set[str]()
    for count, entry in builder.numbered(entries):
        try:
            definition = _definition(entry, bounds.toolkit, trust_meta=bounds.trust_meta)
            if definition.remote_id in listed:
                raise DefinitionError("its name stands in the list more than once; the first counts")
        except DefinitionError as exc:
            name = entry.get("name") if isinstance(entry, dict) else None
            shown = name[:MAX_SHOWN] if isinstance(name, str) and name else f"number {count} of the list"
            builder.reject(shown, str(exc))
            continue
        listed.add(definition.remote_id)
        builder.add(definition)
    builder.tell_apart(_with_digest)
    return builder.encoded("", fresh_s=_fresh_s(text))


class _Lifetime(Struct):
    ttl_ms: float | None = field(name="ttlMs", default=None)


def _fresh_s(text: bytes) -> float | None:
    """How long a list is good for by its own words (2026-07-28, Caching); None if it does not say."""
    try:
        ttl_ms = msgspec.json.decode(text, type=_Lifetime).ttl_ms
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if ttl_ms is None else min(max(ttl_ms, 0.0), MAX_TTL_MS) / 1000


def _definition(entry: Json, toolkit: str, *, trust_meta: bool) -> ToolDefinition:
    """Reads one listed tool. Raises DefinitionError."""
    if isinstance(entry, UnreadableTool):
        raise DefinitionError(entry.reason)
    if not isinstance(entry, dict):
        raise DefinitionError("a listed tool is not an object")
    name = entry.get("name")
    if not isinstance(name, str) or not name or len(name) > MAX_ID_LENGTH:
        raise DefinitionError(f"a listed tool has no name of 1 to {MAX_ID_LENGTH} characters")
    if _object(entry, "execution").get("taskSupport") == "required":
        raise DefinitionError("it runs only as a task of revision 2025-11-25, which is not spoken")
    meta = _object(entry, "_meta") if trust_meta else {}
    tool, version = _id(meta) or (f"{toolkit}.{word(name)}", DEFAULT_VERSION)
    title = _text(entry, "title") or _text(_object(entry, "annotations"), "title")
    return ToolDefinition(
        tool=tool,
        version=version,
        name=published_name(tool),
        description=_text(entry, "description") or title or name,
        input_schema=_input(entry),
        output_schema=_output(entry),
        remote_id=name,
        requires=requirements_of(meta.get(REQUIREMENTS_MEMBER)),
        title=title,
        hints=_hints(_object(entry, "annotations")),
        mcp=_members(entry, trust_meta=trust_meta),
    )


def _members(entry: JsonObject, *, trust_meta: bool) -> JsonObject:
    """What only callers of MCP get (`ToolDefinition.mcp`)."""
    meta = passed_on(entry.get("_meta"), trust_meta=trust_meta)
    members = {
        "_meta": {name: value for name, value in meta.items() if name not in (ID_MEMBER, REQUIREMENTS_MEMBER)},
        "icons": icons_of(entry.get("icons")),
        "title": _text(_object(entry, "annotations"), "title"),
    }
    return {name: value for name, value in members.items() if value}


def _id(meta: JsonObject) -> tuple[str, str] | None:
    """Tool and version by the id that another Toolgate gives; None if it gives none."""
    id_ = _text(meta, ID_MEMBER) or ""
    match = TRUSTED_ID.fullmatch(id_) if len(id_) <= MAX_ID_LENGTH else None
    return None if match is None else (match[1], match[2])


def _with_digest(definition: ToolDefinition) -> ToolDefinition:
    """A tool whose name becomes that of another, under an id of its own, which does not hang on what else is listed."""
    digest = hashlib.sha256(definition.remote_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    toolkit, _, plain = definition.tool.partition(".")
    tool = f"{toolkit}.{plain[:KEPT_LENGTH]}_{digest}"
    return replace(definition, tool=tool, name=published_name(tool))


def _input(entry: JsonObject) -> JsonObject:
    """The schema of the arguments. Raises DefinitionError."""
    schema = entry.get("inputSchema", {})
    if not isinstance(schema, dict):
        raise DefinitionError("its input schema is not an object")
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise DefinitionError("its input schema is not of type object")
    try:
        header_arguments_of(schema)
    except ValueError as exc:
        raise DefinitionError(str(exc)) from exc
    return schema


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
    hints = {name: annotations.get(member) for name, member in HINTS.items()}
    return {name: value for name, value in hints.items() if isinstance(value, bool)}


def _object(entry: JsonObject, member: str) -> JsonObject:
    value = entry.get(member)
    return value if isinstance(value, dict) else {}


def _text(entry: JsonObject, member: str) -> str | None:
    value = entry.get(member)
    return value if isinstance(value, str) and value else None
