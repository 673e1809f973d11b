"""What MCP servers gave with calls that the user has to allow first, for when the same call comes again.

A modern server keeps nothing: its `requestState` has to come back with the answers (2026-07-28, Multi Round-Trip
Requests). Callers of other protocols know nothing of it, so it stays in the memory of this process, by principal, user,
tool and arguments. That a call comes again means that the user has been sent to the URL: `accept` says no more.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

import msgspec
from msgspec import Struct

from gateway.model import Invocation, JsonObject

KEPT_S = 3600.0
MAX_KEPT = 1000
MAX_BYTES = 32 * 1024  # of one
Key = tuple[str, str, str, bytes]
_encode = msgspec.json.Encoder(order="sorted").encode


class _Asked(Struct):
    answers: JsonObject
    until: float


class McpInputs:
    """Keeps the latest `most` of them, each for an hour."""

    def __init__(self, *, most: int = MAX_KEPT, clock: Callable[[], float] = monotonic) -> None:
        self._kept: OrderedDict[Key, _Asked] = OrderedDict()
        self._most = most
        self._clock = clock

    def note(self, invocation: Invocation, params: JsonObject) -> None:
        """Keeps the params that the same call is to have when it comes again; those that are too long are not kept."""
        key = _key(invocation)
        self._kept.pop(key, None)
        if len(_encode(params)) > MAX_BYTES:
            return
        while len(self._kept) >= self._most:
            self._kept.popitem(last=False)
        self._kept[key] = _Asked(params, self._clock() + KEPT_S)

    def of(self, invocation: Invocation) -> JsonObject:
        """The params that a call has beside its own; none for most."""
        if not self._kept:
            return {}
        asked = self._kept.get(_key(invocation))
        return asked.answers if asked is not None and self._clock() < asked.until else {}

    def forget(self, invocation: Invocation) -> None:
        """Drops what was kept for a call that its server has answered."""
        if self._kept:
            self._kept.pop(_key(invocation), None)


def _key(invocation: Invocation) -> Key:
    digest = hashlib.sha256(_encode(invocation.arguments)).digest()
    return invocation.principal, invocation.user, invocation.tool.remote_id, digest
