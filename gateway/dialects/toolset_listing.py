"""Reads whole toolsets of callback servers into definitions, as text; the counterpart of `listings`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.callback_toolset import ToolsetError, decode_toolset
from gateway.dialects.definitions import UnreadableTool
from gateway.dialects.listings import MAX_VALUES, Gathered, decode_terms, most_as_sent, most_values
from gateway.dialects.lists import TooLongTool, read_array
from gateway.jsontext import JsonError, decode, encode
from gateway.model import Json, Rejected

MAX_HEAD_BYTES = 64 * 1024  # of what a toolset says besides its tools


class Summary(Struct, frozen=True):
    """What was read besides tools. `invalid`: why no tool of it may be offered; `failure`: why there is no toolset."""

    endpoint: str = ""
    rejected: tuple[Rejected, ...] = ()
    invalid: str = ""
    failure: str = ""


class _Top(Struct):
    name: Raw = Raw(b"null")
    endpoint: Raw = Raw(b"null")
    description: Raw = Raw(b"null")
    tools: Raw = Raw(b"null")


decode_summary = msgspec.json.Decoder(Summary).decode


def read_toolset(terms: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads a manifest. Returns a Summary, then arrays of ToolDefinition, all of them JSON text."""
    gathered = Gathered(decode_terms(terms))
    try:
        toolset = decode_toolset(_within_bounds(text, gathered))
    except JsonError as exc:
        return (encode(Summary(failure=str(exc))),)
    except ToolsetError as exc:
        return (encode(Summary(invalid=str(exc))),)
    for definition in toolset.listing.tools:
        gathered.take(definition)
    rejected = (*toolset.listing.rejected, *gathered.rejected)
    return (encode(Summary(endpoint=toolset.endpoint, rejected=rejected)), *gathered.parts())


def _within_bounds(text: bytes, gathered: Gathered) -> Json:
    """The manifest without the tools that are too large for us, or too many. Raises JsonError."""
    try:
        top = msgspec.json.decode(text, type=_Top)
    except msgspec.ValidationError:
        return None  # no object
    except (msgspec.DecodeError, RecursionError):
        return decode(text)  # which says why
    head = {name: getattr(top, name) for name in ("name", "endpoint", "description")}
    if sum(map(len, head.values())) > MAX_HEAD_BYTES:
        raise JsonError(f"it says more than {MAX_HEAD_BYTES} bytes besides its tools")
    document: dict[str, Any] = {name: decode(bytes(said)) for name, said in head.items() if bytes(said) != b"null"}
    if bytes(memoryview(top.tools)[:1]) != b"[":
        return document | {"tools": decode(bytes(top.tools))}
    return document | {"tools": _tools(top.tools, gathered)}


def _tools(array: Raw, gathered: Gathered) -> list[Json]:
    bounds, tools, values = gathered.bounds, list[Json](), 0
    for count, tool in enumerate(read_array(array, bounds.max_tools + 1, most_as_sent(bounds.max_schema_bytes)), 1):
        if count > bounds.max_tools:
            gathered.cut_off()
            break
        if isinstance(tool, TooLongTool):
            gathered.reject(str(tool.get("name", f"number {count} of the list")), tool.reason)
            continue
        if isinstance(tool, UnreadableTool):
            raise JsonError(tool.reason)
        values += most_values(encode(tool))
        if values > MAX_VALUES:
            raise JsonError(f"its tools hold more than {MAX_VALUES} values")
        tools.append(tool)
    return tools
