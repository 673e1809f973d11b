"""Operations of a Lua script that travel in batches: all that are asked for in one turn of the event loop.

A script is called with the keys of all operations in order (KEYS), its settings (ARGV[1]) and the list of operations
(ARGV[2]), the latter two in MessagePack. It returns a list with one reply for each operation.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gateway.core.errors import StateUnavailable
from gateway.redisclient.connections import pack
from gateway.redisclient.store import Reply, ScriptOptions

MAX_BATCH_BYTES = 4 << 20  # as `max_batch`, of all operations of a batch together; a larger one travels alone
MAX_QUEUED = 20_000  # operations waiting for the batch under way; more than callers a process can have
NO_KEYS = pack(b"0")
WORDS = 5  # of a command without keys: EVAL, the script, the number of keys, the settings, the operations

Pending = tuple[bytes, Sequence[bytes], asyncio.Future[Reply]]  # an operation, its keys, where its reply is awaited

encode = msgspec.msgpack.Encoder().encode


class NotDone(StateUnavailable):
    """The operation was certainly not done."""


class LuaScript:
    """How a script is named in a command: by its text, which has the server remember it, or by its digest."""

    def __init__(self, text: bytes) -> None:
        self.by_text = pack(b"EVAL", text)
        self.by_digest = pack(b"EVALSHA", hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


class OperationQueue(ABC):
    """A queue of operations of one script.

    `on_failure` is called with the reason when Redis stops answering; `is_up` is then False until the caller sets it.
    """

    def __init__(self, options: ScriptOptions, on_failure: Callable[[str], None]) -> None:
        self.is_up = False
        self._max_batch = options.max_batch
        self._settings = pack(encode(options.settings))
        self._greeting = pack(encode(options.greeting))
        self._on_failure = on_failure
        self._queue: list[Pending] = []  # waiting for the batch under way
        self._is_moving = False

    def ask(self, *operation: Any, keys: Sequence[bytes] = (), probing: bool = False) -> asyncio.Future[Reply]:
        """The script's reply. Raises StateUnavailable; unless that is a NotDone, the operation may have been done.

        `probing`: asks even if the server seems to be away.
        """
        if not (self.is_up or probing):
            raise NotDone("the state cannot be reached")
        if len(self._queue) >= MAX_QUEUED:
            raise NotDone("too many operations wait for the state")
        if not self._is_moving:
            self._is_moving = True
            self._loop = asyncio.get_running_loop()  # a system call, so not for each operation
            self._start()
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._queue.append((encode(operation), keys, reply))
        return reply

    @abstractmethod
    def _start(self) -> None:
        """Has the queue emptied, from the next turn of the event loop on; whoever does sets `_is_moving` to False."""

    def next_batch(self) -> list[Pending]:
        """Takes as many of the waiting operations as fit into one batch."""
        batch = self._queue[: self._max_batch]
        size_bytes = sum([len(operation) for operation, _, _ in batch])
        while size_bytes > MAX_BATCH_BYTES and len(batch) > 1:
            size_bytes -= len(batch.pop()[0])
        del self._queue[: len(batch)]
        return batch

    def _fail(self, batch: Sequence[Pending], reason: str) -> None:
        """Fails a batch that was sent, and all operations that wait behind it."""
        for failure, pending in ((StateUnavailable(reason), batch), (NotDone(reason), self._queue)):
            for _, _, reply in pending:
                if not reply.done():
                    reply.set_exception(failure)
        self._queue.clear()


def packed_operations(batch: Sequence[Pending]) -> bytes:
    """Packs the operations of a batch, which are the last word of the command."""
    return pack(encode([msgspec.Raw(operation) for operation, _, _ in batch]))


def deliver(replies: Sequence[Reply | bytes], batch: Sequence[Pending]) -> None:
    """Gives each operation of a batch its reply."""
    for answer, (_, _, reply) in zip(replies, batch, strict=True):
        if reply.done():  # its caller was cancelled
            continue
        if not isinstance(answer, list):
            reply.set_result([answer])
        elif answer[0] == b"error":
            reply.set_exception(StateUnavailable(f"the state refused: {answer[1].decode('utf-8', 'replace')}"))
        else:
            reply.set_result(answer)
