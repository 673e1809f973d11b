"""JSON text in and out, with every rule decided.

Integers are exact up to 4,300 characters, a minus sign among them, and longer ones are refused; other numbers are IEEE
doubles and refused beyond their range. NaN, Infinity, lone surrogates and bad UTF-8 are refused; but what a tool that
has run returns is not lost for half a character, which becomes U+FFFD. Of duplicate keys the last wins, and because
what goes out is always encoded from the value that was validated, it wins everywhere.
"""

from __future__ import annotations

import re

import msgspec

from gateway.core.model import Json

MAX_DEPTH = 64  # deeper than any argument a person writes, far below what the validators recurse through

# What reading, checking and encoding a text may take here, in nanoseconds; longer ones are left to another process.
MAX_HERE_NS = 5_000_000
CONTAINER_NS, VALUE_NS = 800, 130  # at worst, measured: lists in lists; short numbers
MAX_CONTAINERS, MAX_VALUES = MAX_HERE_NS // CONTAINER_NS, MAX_HERE_NS // VALUE_NS
ALWAYS_HERE_BYTES = 16 * 1024  # of nothing but brackets: 6 ms
NEVER_HERE_BYTES = 10 * 1024 * 1024  # of one string that is not ASCII: 15 ms to read and write
ESCAPED_BYTES, ESCAPE_NS = 1024 * 1024, 10  # from that size on, escapes count; all of it, that is 5 ms
FEW = 16  # values: not even the longest numbers take long then
LONG_BITS = 850  # 256 digits
LONG_NUMBER = b"0" * 256  # digits; 64 KiB of longer ones take 5 ms, because reading and writing them is quadratic
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)

HALF_A_PAIR = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])", re.DOTALL)  # an escaped backslash may feign one

# Once escaped backslashes are out of the way: either half of a surrogate pair without the other, as an escape; or as
# bytes, against all rules of UTF-8. The literal beginning makes the search five times as fast.
_HALVES = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_HALVES_AS_BYTES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
REPLACEMENT = "\ufffd".encode()

_decode = msgspec.json.Decoder().decode
CONTAINERS = (dict, list)  # in half the time of a union
encode = msgspec.json.Encoder().encode


class JsonError(ValueError):
    """A text that is not JSON as we take it; says why without quoting the text."""


def decode(text: bytes, max_depth: int = MAX_DEPTH) -> Json:
    """Reads one JSON value, nested at most so deep. Raises JsonError."""
    try:
        value = _decode(text)
    except UnicodeDecodeError as exc:
        raise JsonError("it is not valid UTF-8") from exc
    except RecursionError as exc:
        raise JsonError(f"it is nested deeper than {max_depth} levels") from exc
    except msgspec.DecodeError as exc:
        raise JsonError(_reason(str(exc), text)) from exc
    if _brackets(text, max_depth + 1) > max_depth and is_deeper_than(value, max_depth):
        raise JsonError(f"it is nested deeper than {max_depth} levels")
    return value


def decode_answer(text: bytes, max_depth: int = MAX_DEPTH) -> Json:
    """As `decode`, of what a tool server has answered: half a surrogate pair is read as U+FFFD.

    Not so in a text of more than ALWAYS_HERE_BYTES, because looking for them takes half a second a MiB, at worst: it
    is read in another process, which does.
    """
    return decode(text, max_depth) if len(text) > ALWAYS_HERE_BYTES else decode_halves(text, max_depth)


def decode_halves(text: bytes, max_depth: int = MAX_DEPTH) -> Json:
    """As `decode_answer`, of any length: in another process, or after `may_have_halves` has said no."""
    try:
        return decode(text, max_depth)
    except JsonError:
        whole = without_halves(text)
        if whole is text:
            raise
    return decode(whole, max_depth)


def without_halves(text: bytes) -> bytes:
    """The text with U+FFFD in place of each half of a surrogate pair; the same one if there is none."""
    if b"\0" in text or not may_have_halves(text):  # the first is no JSON
        return text
    whole, count = _HALVES.subn(REPLACEMENT, text.replace(b"\\\\", b"\0\0"))
    if b"\xed" in whole:
        whole, more = _HALVES_AS_BYTES.subn(REPLACEMENT, whole)
        count += more
    return whole.replace(b"\0\0", b"\\\\") if count else text


def may_have_halves(text: bytes) -> bool:
    """Whether there may be something in a text for `mended`; says so of whole surrogate pairs, too."""
    return b"\\ud" in text or b"\\uD" in text or b"\xed" in text


def is_wide(text: bytes) -> bool:
    """Whether a text may hold so many values, or numbers so long, that reading it would hold up the event loop."""
    size = len(text)
    if not ALWAYS_HERE_BYTES < size <= NEVER_HERE_BYTES:
        return size > NEVER_HERE_BYTES
    if size > ESCAPED_BYTES and text.count(b"\\") * ESCAPE_NS > MAX_HERE_NS:
        return True
    if text.startswith(b'"'):
        return False
    if all(_count(text, character, FEW) <= FEW for character in (b"{", b"[", b",")):
        return False
    containers = len(text.split(b"{", MAX_CONTAINERS)) + len(text.split(b"[", MAX_CONTAINERS))
    values = len(text.split(b",", MAX_VALUES))
    if containers * CONTAINER_NS + values * VALUE_NS > MAX_HERE_NS:
        return True
    return size > 4 * ALWAYS_HERE_BYTES and values > FEW and LONG_NUMBER in text.translate(_DIGITS)


def holds_many(value: Json) -> bool:
    """As `is_wide`, of what was read: in a text, brackets and commas count as well that stand in strings."""
    left_ns, values, has_long = MAX_HERE_NS, 0, False
    nodes: list[Json] = [value]
    while nodes and left_ns >= 0:
        node = nodes.pop()
        left_ns, values = left_ns - VALUE_NS, values + 1
        if isinstance(node, CONTAINERS):
            left_ns -= CONTAINER_NS + len(node) * VALUE_NS
            nodes += () if left_ns < 0 else node.values() if isinstance(node, dict) else node
        elif isinstance(node, int):
            has_long = has_long or node.bit_length() > LONG_BITS
    return left_ns < 0 or (has_long and values > FEW)


def _reason(library_message: str, text: bytes) -> str:
    """What is wrong, in words that are true: the library calls half a surrogate pair an early end."""
    if library_message == "Input data was truncated" and HALF_A_PAIR.search(text):
        return "it ends too early, or holds half a surrogate pair"
    return library_message.removeprefix("JSON is malformed: ")


def _brackets(text: bytes, most: int) -> int:
    """How many open, a bound of the depth that costs next to nothing; of each kind no more than `most` are counted."""
    if len(text) > ALWAYS_HERE_BYTES:
        return _count(text, b"{", most) + _count(text, b"[", most)
    # By splitting, because `bytes.count` looks at each byte on its own.
    return len(text.split(b"{", most)) + len(text.split(b"[", most)) - 2


def _count(text: bytes, character: bytes, most: int) -> int:
    """How often a character is there, counted until it is more often than `most`. A long text is not copied for it."""
    count, at = 0, text.find(character)
    while at >= 0 and count <= most:
        count, at = count + 1, text.find(character, at + 1)
    return count


def is_deeper_than(value: Json, limit: int) -> bool:
    """Whether objects and arrays are nested in more levels than `limit`."""
    level: list[Json] = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, CONTAINERS)
        ]
    return bool(level)


def split_pointer(pointer: str) -> list[str]:
    """The names in a JSON Pointer (RFC 6901): `/paths/~1a` has `paths` and `/a`; the empty one has none."""
    names = pointer.split("/")[1:]
    return [name.replace("~1", "/").replace("~0", "~") for name in names] if "~" in pointer else names


def escaped_name(name: str) -> str:
    """A name as a JSON Pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")
