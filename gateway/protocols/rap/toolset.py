"""The manifest of a callback tool server; one flaw and none of it is used (Reactive Agent Protocol: Toolsets)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import jsonschema_rs
import msgspec
from msgspec import Meta, Raw, Struct

from gateway.core import tool_names as naming
from gateway.core.jsontext import JsonError, decode, encode
from gateway.core.model import Json, JsonObject, Rejected, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.core.wire import WireRequest
from gateway.protocols.common.definitions import UnreadableTool
from gateway.protocols.common.entries import TooLongTool, begin_of, read_array
from gateway.protocols.common.fields import get
from gateway.protocols.common.listing import MAX_VALUES, ListBuilder, Summary, decode_bounds, most_as_sent, most_values

MAX_HEAD_BYTES = 64 * 1024  # of what a toolset says besides its tools

# Passed on to callers; the gateway does not rely on them (Toolsets, Annotations: informational).
FLAGS = dict.fromkeys(("readOnly", "destructive", "idempotent", "longRunning"), bool)
ANNOTATIONS: Mapping[str, type] = {"requiresAuth": str, **FLAGS}
# The library would fetch any other `$schema` from wherever it points.
DRAFTS = frozenset(
    {f"http://json-schema.org/draft-{number}/schema" for number in ("04", "06", "07")}
    | {f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")}
)

_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class _ManifestTool(Struct, frozen=True, rename="camel"):
    name: _Name
    description: Annotated[str, Meta(min_length=1)]
    input_schema: JsonObject
    annotations: JsonObject | None = None


class _Manifest(Struct, frozen=True):
    name: _Name
    endpoint: str
    tools: Annotated[list[_ManifestTool], Meta(min_length=1)]
    description: str | None = None


class _ManifestMembers(Struct):
    """The members of a manifest, each as text."""

    name: Raw = Raw(b"null")
    endpoint: Raw = Raw(b"null")
    description: Raw = Raw(b"null")
    tools: Raw = Raw(b"null")


def request_toolset() -> WireRequest:
    """Toolsets, Discovery."""
    return get("/.well-known/rap-toolset")


def read_toolset(encoded_bounds: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads the text of a manifest. Returns a Summary whose `note` is the endpoint, then arrays of ToolDefinition.

    Of a manifest that is not valid there is no endpoint and no tool. All that is returned is JSON text.
    """
    builder = ListBuilder(decode_bounds(encoded_bounds))
    try:
        manifest = _valid(_within_bounds(text, builder))
    except JsonError as exc:
        return (encode(Summary(failure=str(exc))),)
    except DefinitionError as exc:
        return (encode(Summary(rejected=(Rejected(id=builder.bounds.backend, reason=str(exc)),))),)
    for tool in manifest.tools:
        try:
            builder.add(_definition(manifest, tool))
        except DefinitionError as exc:  # a limit of ours, so the others may stay
            builder.reject(tool.name, str(exc))
    return builder.encoded(manifest.endpoint)


def _valid(document: Json) -> _Manifest:
    """Reads a manifest; one flaw in one tool and none may be offered (Toolsets, Validation). Raises DefinitionError."""
    try:
        manifest = msgspec.convert(document, _Manifest)
    except msgspec.ValidationError as exc:
        raise DefinitionError(f"the toolset is not valid: {exc}") from exc
    names: set[str] = set()
    for tool in manifest.tools:
        if tool.name in names:
            raise DefinitionError(f"the toolset has two tools named {tool.name!r}")
        names.add(tool.name)
        if not _is_schema(tool.input_schema):
            raise DefinitionError(f"the inputSchema of {tool.name!r} is not a JSON Schema")
    return manifest


def _is_schema(schema: JsonObject) -> bool:
    """Whether a schema is valid in its draft; one of an unknown draft is judged where it is to be used."""
    draft = schema.get("$schema")
    if isinstance(draft, str) and draft.removesuffix("#") not in DRAFTS:
        return True
    return jsonschema_rs.meta.is_valid(schema)


def _definition(manifest: _Manifest, tool: _ManifestTool) -> ToolDefinition:
    # A dot or an @ in a name is part of it here, not where a toolkit ends or a version begins.
    identity = naming.tool_and_version(naming.word(tool.name), None, manifest.name)
    annotations = tool.annotations or {}
    valid = {key: annotations[key] for key, kind in ANNOTATIONS.items() if isinstance(annotations.get(key), kind)}
    return ToolDefinition(
        tool=identity.tool,
        version=identity.version,
        name=naming.published_name(identity.tool),
        description=tool.description,
        input_schema=tool.input_schema | ({"x-rap-annotations": valid} if valid else {}),
        output_schema={},  # the protocol has none
        remote_id=tool.name,
        toolkit_description=manifest.description,
    )


def _within_bounds(text: bytes, builder: ListBuilder) -> Json:
    """The manifest without the tools that are too large for us, or too many. Raises JsonError."""
    try:
        top = msgspec.json.decode(text, type=_ManifestMembers)
    except msgspec.ValidationError:
        return None  # no object
    except (msgspec.DecodeError, RecursionError):
        return decode(text)  # which says why
    head = {name: getattr(top, name) for name in ("name", "endpoint", "description")}
    if sum(map(len, head.values())) > MAX_HEAD_BYTES:
        raise JsonError(f"it says more than {MAX_HEAD_BYTES} bytes besides its tools")
    document: dict[str, Any] = {name: decode(bytes(part)) for name, part in head.items() if bytes(part) != b"null"}
    is_array = begin_of(top.tools) == b"["
    return document | {"tools": _tools(top.tools, builder) if is_array else decode(bytes(top.tools))}


def _tools(array: Raw, builder: ListBuilder) -> list[Json]:
    bounds, tools, values = builder.bounds, list[Json](), 0
    entries = read_array(array, bounds.max_tools + 1, most_as_sent(bounds.max_schema_bytes))
    for count, tool in builder.numbered(entries):
        if isinstance(tool, TooLongTool):
            builder.reject(str(tool.get("name", f"number {count} of the list")), tool.reason)
            continue
        if isinstance(tool, UnreadableTool):
            raise JsonError(tool.reason)
        values += most_values(encode(tool))
        if values > MAX_VALUES:
            raise JsonError(f"its tools hold more than {MAX_VALUES} values")
        tools.append(tool)
    return tools
