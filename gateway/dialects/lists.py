"""Reads the text of a tool server's list, in which one tool that cannot be read spoils none of the others."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator

from gateway import jsontext
from gateway.dialects.definitions import MAX_LISTED, UnreadableTool
from gateway.model import Json, JsonObject

MAX_DEPTH = jsontext.MAX_DEPTH - 2  # of one tool, which stands in a list in an object

_SPACE = re.compile(r"[ \t\n\r]*")


def decode_list(text: bytes) -> Json:
    """Reads an answer to `GET /tools`; a tool in it that cannot be read becomes an UnreadableTool. Raises JsonError."""
    text = text.removeprefix(BOM_UTF8)
    try:
        return jsontext.decode(text)
    except jsontext.JsonError as exc:
        try:
            return _Parts(text).document()
        except (ValueError, RecursionError):
            raise exc from None


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


# Takes what `jsontext` refuses: long integers, numbers beyond a double, lone surrogates. All that is wanted of it is
# where a value ends, and what a tool is called.
_loosely = json.JSONDecoder(parse_int=float, parse_constant=_no_constant).raw_decode


class _Parts:
    """Takes a text apart, down to the tools in it, as far as it can be read. Raises ValueError, RecursionError."""

    def __init__(self, text: bytes) -> None:
        self._text = text.decode("latin-1")  # one character a byte, so that no text is refused
        self._at = 0
        self._skip(0)

    def document(self) -> Json:
        found = self._tools() if self._here == "[" else self._object()
        if self._here:
            raise ValueError("there is more")
        return found

    @property
    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, characters: int) -> None:
        self._at += characters
        space = _SPACE.match(self._text, self._at)
        self._at = self._at if space is None else space.end()

    def _expect(self, character: str) -> None:
        if self._here != character:
            raise ValueError(f"{character} is missing")
        self._skip(1)

    def _each(self, opening: str, closing: str) -> Iterator[None]:
        """Yields in front of each part between the brackets, for its reader to pass it, and ends behind them all."""
        self._expect(opening)
        if self._here != closing:
            yield
            while self._here == ",":
                self._skip(1)
                yield
        self._expect(closing)

    def _value(self) -> tuple[Json, bytes]:
        """Passes the next value. Returns it as far as it can be read, and its text."""
        begin = self._at
        value, self._at = _loosely(self._text, begin)
        text = self._text[begin : self._at].encode("latin-1")
        self._skip(0)
        return value, text

    def _object(self) -> JsonObject:
        members: JsonObject = {}
        for _ in self._each("{", "}"):
            name, _text = self._value()
            if not isinstance(name, str):
                raise ValueError("a name is missing")
            self._expect(":")
            listed = name in ("tools", "items") and self._here == "["
            members[name] = self._tools() if listed else jsontext.decode(self._value()[1])
        return members

    def _tools(self) -> list[Json]:
        tools: list[Json] = []
        for _ in self._each("[", "]"):
            if len(tools) == MAX_LISTED:
                raise ValueError("nobody has so many tools")
            tools.append(self._tool())
        return tools

    def _tool(self) -> Json:
        value, text = self._value()
        try:
            return jsontext.decode(text, MAX_DEPTH)
        except jsontext.JsonError as exc:
            return UnreadableTool(_named(value), f"it cannot be read: {exc}")


def _named(value: Json) -> JsonObject:
    """As much of a tool as tells the operator which one it is."""
    found = {key: _readable(value.get(key)) for key in ("id", "name")} if isinstance(value, dict) else {}
    return {key: text for key, text in found.items() if text is not None}


def _readable(text: Json) -> str | None:
    try:
        return text.encode("latin-1").decode() if isinstance(text, str) else None
    except UnicodeError:
        return None
