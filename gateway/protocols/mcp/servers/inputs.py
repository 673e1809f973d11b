"""Answers to MCP servers whose calls the user has to allow first, for when the same call comes again.

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

from gateway.core.model import Invocation, JsonObject

KEPT_S = 3600.0
MAX_KEPT = 1000
MAX_BYTES = 32 * 1024  # of one
Key = tuple[str, str, str, bytes]
_encode = msgspec.json.Encoder(order="sorted").encode


class _Answers(Struct):
    params: JsonObject
    expires_at: float


class McpInputs:
    """Keeps the latest `most` of them, each for an hour."""

    def __init__(self, *, most: int = MAX_KEPT, clock: Callable[[], float] = monotonic) -> None:
        self._answers: OrderedDict[Key, _Answers] = OrderedDict()
        self._most = most
        self._clock = clock

    def store(self, invocation: Invocation, params: JsonObject) -> None:
        """Keeps the params that the same call is to have when it comes again; those that are too long are not kept."""
        key = _key(invocation)
        self._answers.pop(key, None)
        if len(_encode(params)) > MAX_BYTES:
            return
        while len(self._answers) >= self._most:
            self._answers.popitem(last=False)
        self._answers[key] = _Answers(params, self._clock() + KEPT_S)

    def answers_for(self, invocation: Invocation) -> JsonObject:
        """The params that a call has beside its own; none for most."""
        if not self._answers:
            return {}
        answers = self._answers.get(_key(invocation))
        return answers.params if answers is not None and self._clock() < answers.expires_at else {}

    def forget(self, invocation: Invocation) -> None:
        """Drops the answers for a call that its server has answered."""
        if self._answers:
            self._answers.pop(_key(invocation), None)


def _key(invocation: Invocation) -> Key:
    digest = hashlib.sha256(_encode(invocation.arguments)).digest()
    return invocation.principal, invocation.user, invocation.tool.remote_id, digest
