"""Tools as text in which each part of their schemas stands once, and tools of that text in which it is one object.

Thousands of operations of one API return the same few things. Written out for each, GitHub's schemas are 7 MB of text
and 40 MB in memory; as parts that stand once they are a fifth of the one and a twentieth of the other.

A part is an object or a list whose own parts came before it: `[{...}, {...}]` has an object's plain members, then those
that are parts, by number; `[[...]]` a list's plain entries, and `[number]` for a part.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from gateway.dialects.listings import joined
from gateway.jsontext import encode
from gateway.model import Json, JsonObject
from gateway.openapi.plan import OperationTool

NUMBER = "part"  # the only member of what stands for a schema


_decode_tools = msgspec.json.Decoder(list[OperationTool]).decode
_decode_parts = msgspec.json.Decoder(list[Json]).decode


class Parts:
    """The parts of all schemas that were shortened."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}  # with their numbers
        self._numbers: dict[int, int] = {}  # of objects that were seen, by identity
        self._seen: list[Json] = []  # which keeps them alive

    def shortened(self, tool: OperationTool) -> OperationTool:
        """The tool with numbers of parts in place of its schemas."""
        output = tool.output_schema
        return replace(
            tool,
            input_schema={NUMBER: self._number(tool.input_schema)},
            output_schema=None if output is None else {NUMBER: self._number(output)},
        )

    def encoded(self) -> Iterator[bytes]:
        """All parts, in their order, as arrays of which each is short, or has one part."""
        return joined(self._texts)

    def _number(self, value: Json) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._texts.setdefault(encode(self._part(value)), len(self._texts))
            self._numbers[id(value)] = number
            self._seen.append(value)
        return number

    def _part(self, value: Json) -> Json:
        if isinstance(value, list):
            return ([[self._number(entry)] if isinstance(entry, dict | list) else entry for entry in value],)
        plain: JsonObject = {}
        parts: dict[str, int] = {}
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                parts[key] = self._number(inner)
            else:
                plain[key] = inner
        return plain, parts


class Restorer:
    """Makes tools of arrays of parts and of tools, in which equal parts are one object."""

    def __init__(self) -> None:
        self._parts: list[Json] = []

    def tools(self, text: bytes) -> list[OperationTool]:
        """The tools of an array, all of whose parts came before; none if it has parts."""
        if text.startswith(b"[{"):
            return [self._whole(tool) for tool in _decode_tools(text)]
        for part in _decode_parts(text):
            self._parts.append(self._restored(part))
        return []

    def _restored(self, part: Json) -> Json:
        parts = self._parts
        if len(part) == 1:
            return [parts[entry[0]] if type(entry) is list else entry for entry in part[0]]
        plain: JsonObject
        plain, inner = part
        for key, number in inner.items():
            plain[key] = parts[number]
        return plain

    def _whole(self, tool: OperationTool) -> OperationTool:
        output = tool.output_schema
        return replace(
            tool,
            input_schema=self._parts[tool.input_schema[NUMBER]],
            output_schema=None if output is None else self._parts[output[NUMBER]],
        )
