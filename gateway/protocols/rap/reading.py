"""Reads callbacks in another process: those whose size or patterns could hold up the event loop."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Raw
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json

from gateway.core import jsontext
from gateway.core.model import Decode, ToolFailure, ToolResult
from gateway.offload import ChildTasks, reading_s
from gateway.protocols.rap import messages


async def read_apart(
    child: ChildTasks,
    body: bytes,
    own_id: str,
    own_group: str,
    decode: Decode,
    patterns: Sequence[re.Pattern[str]],
    owner: str,
) -> messages.Callback:
    """As `messages.decode_callback`, in the child. Raises OffloadError, or OverrunError if it takes too long."""
    ids, how = (own_id.encode(), own_group.encode()), _pack_how(decode, patterns)
    run = child.run(read_callback, body, *ids, how, cpu_s=reading_s(body), owner=owner, must_run=True)
    return _unpack_message(*await run)


def read_callback(body: bytes, own_id: bytes, own_group: bytes, how: bytes) -> tuple[bytes, ...]:
    """Does what `messages.decode_callback` does, for `_unpack_message` to read. `how` is made by `_pack_how`."""
    decode, patterns = decode_json(how, type=tuple[Decode, list[tuple[str, int]]])
    compiled = [re.compile(pattern, flags) for pattern, flags in patterns]
    message = messages.decode_callback(
        body, own_id.decode(), own_group.decode(), decode=decode, failure_patterns=compiled
    )
    if isinstance(message, messages.ResultMessage):
        result = message.result
        return (
            jsontext.encode(result.value),
            encode_json(result.failure),
            encode_json(message.subscription),
        )
    return (encode_json(message),)


def _pack_how(decode: Decode, patterns: Sequence[re.Pattern[str]]) -> bytes:
    """How the texts of a result are read, by the route of its call."""
    return encode_json((decode, [(pattern.pattern, pattern.flags) for pattern in patterns]))


def _unpack_message(*parts: bytes) -> messages.Callback:
    """The message that `read_callback` has read: a result has three parts."""
    if len(parts) == 1:
        message: messages.Other = decode_json(parts[0], type=messages.Other)
        return message
    value, failure, subscription = parts
    result = ToolResult(
        value=Raw(value) if jsontext.is_wide(value) else decode_json(value),
        failure=decode_json(failure, type=ToolFailure | None),
        value_bytes=len(value),
    )
    return messages.ResultMessage(result, decode_json(subscription))
