"""Bounds how long checking a value against a schema may take, by the schema and the size of the value.

The figures bound what the validator was measured to take; they are not averages. A value whose bound is too high is
checked in another process.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from gateway.core.model import Json, JsonObject
from gateway.schemas.document import Work

MAX_HERE_NS = 5_000_000  # of one check on the event loop
ERROR_NS = 8_000  # to make one error, where asking whether there is one takes a hundredth of it
VALUE_NS = 200.0  # to reach one value
LOOK_NS = 50.0  # for one keyword, or one alternative of an `enum`, to look at it
BYTE_NS = 0.15  # for one byte of a text and one byte of the compiled pattern it is matched against

MAX_MEASURED = 5_000  # values counted one by one, below a millisecond; more never fit
LIGHT_BYTES = 16 * 1024  # of a schema as text: analysed and compiled in some milliseconds
LIGHT_PATTERNS = 32  # in it; each takes some 50 us to compile


class Cost(Struct, frozen=True):
    """Bounds of what checking a value may take."""

    per_value_ns: float  # for each value that is looked at
    per_byte_ns: float  # for each byte of a string
    per_pair_ns: float  # for each pair of bytes of one string
    errors: int  # how many one value can have
    max_bytes: int  # of a JSON text that never takes too long

    def allows_check(self, size: ValueSize) -> bool:
        """Whether asking if a value of that size is valid takes the event loop no longer than it may."""
        most = size.values * self.per_value_ns + size.bytes * self.per_byte_ns + size.pairs * self.per_pair_ns
        return most <= MAX_HERE_NS

    def allows_words(self, size: ValueSize) -> bool:
        """Whether the same is true of finding out what is wrong with it."""
        return size.values * self.errors * ERROR_NS <= MAX_HERE_NS and self.allows_check(size)


class ValueSize(Struct, frozen=True):
    """What a value holds."""

    values: int
    bytes: int  # of all strings
    pairs: int  # of bytes of one string: the sum of the squares of their lengths


def cost_of(work: Work, patterns: int, pattern_bytes: int, *, backtracks: bool) -> Cost:
    """The bounds of a schema with so many patterns, each of which takes at most `pattern_bytes` compiled.

    A linear engine looks at each byte of a string once for each of these bytes; one that `backtracks` may begin anew
    at each byte of the string.
    """
    per_value = VALUE_NS + LOOK_NS * work.looks
    per_byte = patterns * (5.0 + BYTE_NS * pattern_bytes)
    if backtracks:
        most = min(MAX_HERE_NS / per_value, (MAX_HERE_NS / per_byte / 2) ** 0.5)
        return Cost(per_value, 0.0, per_byte, work.schemas, int(most))
    most = MAX_HERE_NS / (per_value / 2 + per_byte)  # the shortest value and its comma are two bytes
    return Cost(per_value, per_byte, 0.0, work.schemas, int(most))


def size_of(value: Json) -> ValueSize | None:
    """The size of a value; None for one that holds very much, or that is still JSON text."""
    queue: list[Json] = [value]
    values = length = pairs = 0
    while queue:
        node = queue.pop()
        values += 1
        if values > MAX_MEASURED or type(node) is Raw:
            return None
        if isinstance(node, str):
            size = len(node) if node.isascii() else 4 * len(node)
            length += size
            pairs += size * size
        elif isinstance(node, dict):
            queue.extend(node)
            queue.extend(node.values())
        elif isinstance(node, list):
            if len(node) > MAX_MEASURED:
                return None
            queue.extend(node)
    return ValueSize(values, length, pairs)


def is_light(schema: JsonObject) -> bool:
    """Whether analysing and compiling a schema takes some milliseconds at most, by its text."""
    text = msgspec.json.encode(schema)
    return len(text) <= LIGHT_BYTES and text.count(b'"pattern') <= LIGHT_PATTERNS
