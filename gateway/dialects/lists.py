"""The list of a tool server as text: one tool in it that cannot be read spoils none of the others."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from gateway import jsontext
from gateway.dialects.definitions import UnreadableTool
from gateway.dialects.replies import BOM
from gateway.jsontext import JsonError
from gateway.model import Json, JsonObject

MAX_DEPTH = jsontext.MAX_DEPTH - 2  # of one tool, which stands in a list in an object


class _Names(Struct):
    """As much of a tool as tells the operator which one it is."""

    id: str | None = None
    name: str | None = None


_outline = msgspec.json.Decoder(dict[str, Raw] | list[Raw]).decode
_entries = msgspec.json.Decoder(list[Raw]).decode
_names = msgspec.json.Decoder(_Names).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_list(text: bytes) -> Json:
    """Reads an answer to `GET /tools`; a tool in it that cannot be read becomes an UnreadableTool. Raises JsonError."""
    text = text.removeprefix(BOM)
    try:
        return jsontext.decode(text)
    except JsonError as exc:
        try:
            return _one_by_one(text)
        except _UNREADABLE:
            raise exc from None


def _one_by_one(text: bytes) -> Json:
    outline = _outline(text)
    if isinstance(outline, list):
        return [_tool(entry) for entry in outline]
    return {name: _member(name, value) for name, value in outline.items()}


def _member(name: str, value: Raw) -> Json:
    text = bytes(value)
    if name in ("tools", "items") and text.startswith(b"["):
        return [_tool(entry) for entry in _entries(text)]
    return jsontext.decode(text)


def _tool(entry: Raw) -> Json:
    try:
        return jsontext.decode(bytes(entry), MAX_DEPTH)
    except JsonError as exc:
        return UnreadableTool(_named(entry), f"it cannot be read: {exc}")


def _named(entry: Raw) -> JsonObject:
    try:
        found = _names(entry)
    except _UNREADABLE:
        return {}
    return {key: value for key, value in (("id", found.id), ("name", found.name)) if value is not None}
