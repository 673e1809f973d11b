"""Batches operations of a Lua script: all that are asked for in one turn of the event loop travel as one command.

One batch is under way at a time, and what is asked meanwhile forms the next, so an operation is cheaper the more there
are: those of one call cost 390,000 instructions here when asked alone, 160,000 with 16 callers. Nothing waits for
a Redis that is away: the batch under way fails within its time limit, everything else at once.

A script is called with the keys of all operations in order (KEYS), its settings (ARGV[1]) and the list of operations
(ARGV[2]), the latter two in MessagePack. It returns a list with one reply for each operation.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from gateway.state.causes import cause
from gateway.state.connections import BATCH_TIMEOUT_S, RedisConnection, pack, place_of
from gateway.state.port import StateUnavailable

MAX_BATCH_BYTES = 4 << 20  # as MAX_BATCH, of all operations of a batch together; a larger one travels alone
MAX_QUEUED = 20_000  # operations waiting for the batch under way; more than callers a process can have
NO_KEYS = pack(b"0")
WORDS = 5  # of a command without keys: EVAL, the script, the number of keys, the settings, the operations

Reply = list[Any]
Pending = tuple[bytes, Sequence[bytes], asyncio.Future[Reply]]  # an operation, its keys, where its reply is awaited

_encode = msgspec.msgpack.Encoder().encode


class NotDone(StateUnavailable):
    """The operation was certainly not done."""


class ScriptClient:
    """Runs operations of one script.

    `greeting` are operations to begin each connection with; a batch has at most `max_batch` operations. `on_failure`
    is called with the reason when Redis stops answering; `is_up` is then False until the caller sets it again.
    """

    def __init__(
        self,
        redis: Redis,
        script: bytes,
        on_failure: Callable[[str], None],
        *,
        max_batch: int,
        settings: object = None,
        greeting: Sequence[Sequence[Any]] = (),
    ) -> None:
        self.is_up = False
        self._redis = redis
        self._by_text = pack(b"EVAL", script)
        self._by_digest = pack(b"EVALSHA", hashlib.sha1(script, usedforsecurity=False).hexdigest().encode())
        self._settings = pack(_encode(settings))
        # By text, which has the server remember the script.
        greet = (self._by_text, NO_KEYS, self._settings, pack(_encode(greeting)))
        self._connection = RedisConnection(redis, (WORDS, greet))
        self._on_failure = on_failure
        self._max_batch = max_batch
        self._queue: list[Pending] = []  # waiting for the batch under way
        self._flight: asyncio.Task[None] | None = None

    def ask(self, *operation: Any, keys: Sequence[bytes] = (), probing: bool = False) -> asyncio.Future[Reply]:
        """The script's reply. Raises StateUnavailable; unless that is a NotDone, the operation may have been done.

        `probing`: asks even if Redis seems to be away.
        """
        if not (self.is_up or probing):
            raise NotDone("the state cannot be reached")
        if len(self._queue) >= MAX_QUEUED:
            raise NotDone("too many operations wait for the state")
        if self._flight is None:
            self._loop = asyncio.get_running_loop()  # a system call, so not for each operation
            self._flight = self._loop.create_task(self._fly())
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._queue.append((_encode(operation), keys, reply))
        return reply

    async def aclose(self) -> None:
        """Fails all operations that have no reply yet."""
        self.is_up = False
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)
        self._fail([], "the state is closed")
        await self._connection.aclose()

    async def _fly(self) -> None:
        batch: list[Pending] = []
        try:
            while self._queue:
                batch = self._next_batch()
                async with asyncio.timeout(BATCH_TIMEOUT_S):
                    replies = await self._run(batch)
                _deliver(replies, batch)
                batch = []
        except (RedisError, OSError, TimeoutError) as exc:
            was_up, self.is_up = self.is_up, False
            place = place_of(self._redis)
            why = f"{place}: {cause(exc, place)}"
            self._fail(batch, why)
            if was_up:
                self._on_failure(why)
            # Another server may be the primary by now: which one is found out when the next connection is made.
            await self._connection.aclose()
            await self._redis.connection_pool.disconnect(inuse_connections=False)
        finally:
            self._flight = None
            self._fail(batch, "the state cannot be reached")

    def _next_batch(self) -> list[Pending]:
        """Takes as many of the waiting operations as fit into one batch."""
        batch = self._queue[: self._max_batch]
        size_bytes = sum([len(operation) for operation, _, _ in batch])
        while size_bytes > MAX_BATCH_BYTES and len(batch) > 1:
            size_bytes -= len(batch.pop()[0])
        del self._queue[: len(batch)]
        return batch

    async def _run(self, batch: list[Pending]) -> list[Reply | bytes]:
        keys = [key for _, some, _ in batch for key in some]
        operations = pack(_encode([msgspec.Raw(operation) for operation, _, _ in batch]))
        rest = (pack(b"%d" % len(keys), *keys) if keys else NO_KEYS, self._settings, operations)
        replies: list[Reply | bytes]
        try:
            replies = await self._connection.execute(WORDS + len(keys), (self._by_digest, *rest))
        except NoScriptError:  # SCRIPT FLUSH was called on the server; nothing of this batch was run
            replies = await self._connection.execute(WORDS + len(keys), (self._by_text, *rest))
        return replies

    def _fail(self, sent: Sequence[Pending], reason: str) -> None:
        """Fails a batch that was sent, and all operations that wait behind it."""
        for failure, pending in ((StateUnavailable(reason), sent), (NotDone(reason), self._queue)):
            for _, _, reply in pending:
                if not reply.done():
                    reply.set_exception(failure)
        self._queue.clear()


def _deliver(replies: list[Reply | bytes], batch: list[Pending]) -> None:
    for got, (_, _, reply) in zip(replies, batch, strict=True):
        if reply.done():  # its caller was cancelled
            continue
        if not isinstance(got, list):
            reply.set_result([got])
        elif got[0] == b"error":
            reply.set_exception(StateUnavailable(f"the state refused: {got[1].decode('utf-8', 'replace')}"))
        else:
            reply.set_result(got)
