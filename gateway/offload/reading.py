"""Reads documents and callbacks that may hold very many values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway import jsontext
from gateway.dialects import callback
from gateway.model import Decode, Json, JsonObject, ToolFailure, ToolResult

WRAPPINGS = 4  # objects around the members that may stay encoded: `request`, `result`, `output`, `context`
LONG = 64 * 1024  # characters of a string that is taken out as well
FEW = 64  # entries of a list in which such members are looked for
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def read_document(text: bytes, depth: bytes, *members: bytes) -> tuple[bytes, ...]:
    """Checks a JSON document and encodes it again, so that what goes on is what was checked.

    `depth` is how deep it may be nested, in decimal. Objects, arrays and long strings under `members`, at most four
    objects or a short list deep, are taken out. Returns `(b"", rest, path, value, path, value, ...)`, where each path
    is a JSON array of names and indices, or `(reason,)` if the text is not JSON as `jsontext` takes it.
    """
    try:
        document = jsontext.decode(text, int(depth))
    except jsontext.JsonError as exc:
        return (str(exc).encode(),)
    names = {member.decode() for member in members}
    taken: list[bytes] = []
    rest = _without(document, names, (), taken)
    return (b"", jsontext.encode(rest), *taken)


def _without(value: Json, names: set[str], path: tuple[str | int, ...], taken: list[bytes]) -> Json:
    """A copy of the outer objects in which the members of those names are null; what they were is in `taken`."""
    if isinstance(value, list) and not path and len(value) <= FEW:
        return [_without(inner, names, (index,), taken) for index, inner in enumerate(value)]
    if not isinstance(value, dict) or len(path) == WRAPPINGS:
        return value
    rest: JsonObject = {}
    for name, inner in value.items():
        if name in names and (isinstance(inner, dict | list) or (isinstance(inner, str) and len(inner) > LONG)):
            rest[name] = None
            taken += (jsontext.encode((*path, name)), jsontext.encode(inner))
        else:
            rest[name] = _without(inner, names, (*path, name), taken)
    return rest


def read_callback(body: bytes, own_id: bytes, own_group: bytes, how: bytes) -> tuple[bytes, ...]:
    """Does what `callback.decode_callback` does, for `unpack_message` to read. `how` is made by `pack_how`."""
    decode, patterns = _decode(how, type=tuple[Decode, list[tuple[str, int]]])
    compiled = [re.compile(pattern, flags) for pattern, flags in patterns]
    message = callback.decode_callback(
        body, own_id.decode(), own_group.decode(), decode=decode, failure_patterns=compiled
    )
    if isinstance(message, callback.Result):
        result = message.result
        return jsontext.encode(result.value), _encode(result.failure), _encode(message.subscription)
    return (_encode(message),)


def pack_how(decode: Decode, patterns: Sequence[re.Pattern[str]]) -> bytes:
    """How the texts of a result are read, by the route of its call."""
    return _encode((decode, [(pattern.pattern, pattern.flags) for pattern in patterns]))


def unpack_message(*parts: bytes) -> callback.Callback:
    """The message that `read_callback` has read: a result has three parts."""
    if len(parts) == 1:
        other: callback.Other = _decode(parts[0], type=callback.Other)
        return other
    value, failure, subscription = parts
    result = ToolResult(
        value=Raw(value) if jsontext.is_wide(value) else _decode(value),
        failure=_decode(failure, type=ToolFailure | None),
        value_bytes=len(value),
    )
    return callback.Result(result, _decode(subscription))
