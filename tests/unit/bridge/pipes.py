"""A pipe to a server that a test plays itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.bridge.handshake import Ready
from gateway.bridge.relay import BusyError, PendingRequest, RequestRelay, Unread

Answer = Callable[[Any], list[Any]]


class Pipe:
    """What was sent, in order."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self.sent: list[Any] = []
        self.on_message: Callable[[Any], None] = self.sent.append

    def write(self, message: bytes) -> None:
        assert b"\n" not in message
        self.on_message(json.loads(message))

    async def drain(self) -> None:
        """Never waits."""


def relayed() -> tuple[RequestRelay, Pipe, set[Unread[bytes]]]:
    pipe, listeners = Pipe(), set[Unread[bytes]]()
    return RequestRelay(pipe, listeners), pipe, listeners


def say(relay: RequestRelay, **members: Any) -> None:
    """Has the server say a message."""
    relay.receive(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")


def got(asked: PendingRequest) -> list[Any]:
    """The messages that have come for a request so far."""
    return [json.loads(asked.replies.get_nowait().message) for _ in range(asked.replies.qsize())]


class Server:
    """A server behind an endpoint: `answer` gives what it says to a request, each as members of a message."""

    def __init__(self, answer: Answer, ready: Ready, *, is_busy: bool = False) -> None:
        self.relay, self.pipe, self.listeners = relayed()
        self.pipe.on_message = self._hear
        self._answer = answer
        self._ready = ready
        self._is_busy = is_busy

    async def ready(self, *, is_modern: bool) -> tuple[RequestRelay, Ready]:
        if self._is_busy:
            raise BusyError
        return self.relay, self._ready

    def _hear(self, message: Any) -> None:
        self.pipe.sent.append(message)
        if "id" in message:
            for members in self._answer(message):
                asyncio.get_running_loop().call_soon(partial(say, self.relay, **members))
