"""Reads the text of a tool server's list, in which one tool that cannot be read spoils none of the others."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common.definitions import UnreadableTool

MAX_DEPTH = jsontext.MAX_DEPTH - 2  # of one tool, which stands in a list in an object
MAX_MARK_BYTES = 1024  # of the `$schema` of a list, and of the names of a tool that is not read
TOOLS_PER_SPLIT = 20_000  # tools; a type with so many fields takes 0.2 s to make

NO_LIST = "the answer holds no list of tools"
HALF_A_PAIR = b"\xed\xa0\x80"  # U+D800 as no UTF-8 has it: the library only minds it where the text is read

_ESCAPES = re.compile(  # backslashes and whole surrogate pairs; or half a pair, with which the library reads no list
    rb"((?:\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})+)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_SPACE = re.compile(rb"[ \t\n\r]*")
_NOTHING, _NULL = Raw(b""), Raw(b"null")


class TooLongTool(UnreadableTool):
    """A tool that was not read because its text is too long."""


class _ListMembers(Struct):
    """The members of a list that mean something, each as text."""

    mark: Raw = msgspec.field(name="$schema", default=_NULL)
    tools: Raw = _NULL
    items: Raw = _NULL


class _Names(Struct):
    id: Raw = _NULL
    name: Raw = _NULL


def open_list(text: bytes, most: int, max_tool_bytes: int) -> tuple[Json, Iterator[Json]]:
    """An answer to `GET /tools` without its tools, and the first `most` of these, one at a time to bound the memory.

    A tool that cannot be read, or whose text has more than `max_tool_bytes`, becomes an UnreadableTool. Raises
    JsonError, DefinitionError.
    """
    text = text.removeprefix(BOM_UTF8)
    try:
        return _open(text, most, max_tool_bytes)
    except (msgspec.DecodeError, RecursionError):
        with_halves = mended(text)
    try:
        return _open(with_halves, most, max_tool_bytes)
    except (msgspec.DecodeError, RecursionError) as exc:
        jsontext.decode(text)  # which says why
        raise jsontext.JsonError(str(exc)) from exc


def mended(text: bytes) -> bytes:
    """A text in which halves of surrogate pairs spoil only the string they stand in, as soon as that is read."""
    return _ESCAPES.sub(lambda match: match[1] or HALF_A_PAIR, text)


def _open(text: bytes, most: int, max_tool_bytes: int) -> tuple[Json, Iterator[Json]]:
    """Raises DecodeError, RecursionError, DefinitionError."""
    begin = _spaces_end(text, 0)
    if text[begin : begin + 1] == b"[":
        return [], _read_each(text, most, max_tool_bytes)
    try:
        top = msgspec.json.decode(text, type=_ListMembers)
    except msgspec.ValidationError:  # no object
        raise DefinitionError(NO_LIST) from None
    entries = top.items if begin_of(top.tools) == b"n" else top.tools
    if begin_of(entries) != b"[":
        raise DefinitionError(NO_LIST)
    document: Json = {"$schema": _short_text(top.mark), "items": None if begin_of(top.items) == b"n" else []}
    return document, _read_each(entries, most, max_tool_bytes)


def read_array(array: Raw, most: int, max_tool_bytes: int) -> Iterator[Json]:
    """The first `most` entries of an array, as `open_list` reads tools. Raises JsonError."""
    try:
        return _read_each(array, most, max_tool_bytes)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise jsontext.JsonError(str(exc)) from exc


def begin_of(member: Raw) -> bytes:
    """The first byte of a text, which tells what kind of value it is."""
    return bytes(memoryview(member)[:1])


def _read_each(array: Raw | bytes, most: int, max_tool_bytes: int) -> Iterator[Json]:
    """Checks the array whole, then reads its first entries one after the other. Raises DecodeError, RecursionError."""
    first = _split(array, min(most, TOOLS_PER_SPLIT))
    return _read_entries(array, first, most, max_tool_bytes)


def _read_entries(array: Raw | bytes, entries: list[Raw], most: int, max_tool_bytes: int) -> Iterator[Json]:
    while entries:
        for entry in entries:
            yield _read_entry(entry, max_tool_bytes)
        most -= len(entries)
        if len(entries) < TOOLS_PER_SPLIT or most <= 0:
            return
        array = _behind(bytes(array), entries)
        entries = _split(array, min(most, TOOLS_PER_SPLIT))


def _split(array: Raw | bytes, most: int) -> list[Raw]:
    """The texts of the first entries of an array. The others are passed over, but have to be JSON."""
    first = _first_fields(most)(array)
    texts = (getattr(first, name) for name in first.__struct_fields__)
    return list(takewhile(len, texts))


@lru_cache(4)
def _first_fields(count: int) -> Callable[[Raw | bytes], Any]:
    """Reads so many entries of an array as texts; a list of texts would take 56 bytes for each of 20 million."""
    fields = [(f"entry{number}", Raw, _NOTHING) for number in range(count)]
    return msgspec.json.Decoder(msgspec.defstruct("First", fields, array_like=True)).decode


def _behind(array: bytes, entries: list[Raw]) -> bytes:
    """The array without these entries, which are its first."""
    at = array.index(b"[") + 1
    for entry in entries:
        at = _spaces_end(array, _spaces_end(array, at) + len(entry))
        at += array[at : at + 1] == b","
    return b"[" + array[at:]


def _spaces_end(text: bytes, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _read_entry(entry: Raw, max_tool_bytes: int) -> Json:
    size = len(entry)
    if size > max_tool_bytes:
        return TooLongTool(_names(entry), f"its definition has {size} bytes; {max_tool_bytes} are allowed")
    text = bytes(entry)
    try:
        return jsontext.decode(text, MAX_DEPTH)
    except jsontext.JsonError as exc:
        return UnreadableTool(_names(entry), f"it cannot be read: {exc}")


def _names(entry: Raw) -> JsonObject:
    """The id and the name of a tool, by which an operator finds it."""
    try:
        names = msgspec.json.decode(entry, type=_Names)
    except (msgspec.DecodeError, RecursionError):
        return {}
    texts = {"id": _short_text(names.id), "name": _short_text(names.name)}
    return {key: text for key, text in texts.items() if text is not None}


def _short_text(member: Raw) -> str | None:
    try:
        return msgspec.json.decode(member, type=str) if len(member) <= MAX_MARK_BYTES else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
