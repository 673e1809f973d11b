"""Reads callbacks that may hold very many values, in the outer message or in the text of the result."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway import jsontext
from gateway.dialects import callback
from gateway.model import Decode, ToolFailure, ToolResult

KINDS: dict[str, type[callback.Other]] = {
    kind.__name__: kind
    for kind in (
        callback.Consent,
        callback.Choice,
        callback.Event,
        callback.View,
        callback.Foreign,
        callback.Unknown,
        callback.Malformed,
    )
}
RESULT = b"Result"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def read_callback(body: bytes, own_id: bytes, own_group: bytes, how: bytes) -> tuple[bytes, ...]:
    """Does what `callback.decode_callback` does, for `unpack_message` to read. `how` is made by `pack_how`."""
    decode, patterns = _decode(how, type=tuple[Decode, list[tuple[str, int]]])
    compiled = [re.compile(pattern, flags) for pattern, flags in patterns]
    message = callback.decode_callback(
        body, own_id.decode(), own_group.decode(), decode=decode, failure_patterns=compiled
    )
    if isinstance(message, callback.Result):
        result = message.result
        return RESULT, jsontext.encode(result.value), _encode(result.failure), _encode(message.subscription)
    return type(message).__name__.encode(), _encode(message)


def pack_how(decode: Decode, patterns: Sequence[re.Pattern[str]]) -> bytes:
    """How the texts of a result are read, by the route of its call."""
    return _encode((decode, [(pattern.pattern, pattern.flags) for pattern in patterns]))


def unpack_message(kind: bytes, *parts: bytes) -> callback.Callback:
    """The message that `read_callback` has read."""
    if kind != RESULT:
        message: callback.Other = _decode(parts[0], type=KINDS[kind.decode()])
        return message
    value, failure, subscription = parts
    result = ToolResult(
        value=Raw(value) if jsontext.is_wide(value) else _decode(value),
        failure=_decode(failure, type=ToolFailure | None),
        value_bytes=len(value),
    )
    return callback.Result(result, _decode(subscription))
