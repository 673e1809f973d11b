"""The way to Redis: whatever is asked in one turn of the event loop travels as one script call.

One batch is under way at a time, and what is asked meanwhile forms the next. So an operation is the cheaper the more
there are: those of one call cost 390,000 instructions here when asked alone, 160,000 with 16 callers. Nothing waits for
a Redis that is away: the batch under way fails within its time limit, everything else at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from gateway.state.dedicated import Dedicated, packed
from gateway.state.port import StateUnavailable

PARTS = ("common", "calls", "replicas", "batch")  # of the script, in this order
SCRIPT = b"\n".join([Path(__file__).with_name("script").joinpath(f"{part}.lua").read_bytes() for part in PARTS])
BY_TEXT = packed(b"EVAL", SCRIPT)
BY_DIGEST = packed(b"EVALSHA", hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest().encode())
WORDS = 5  # of a command: EVAL and the script, or EVALSHA and its digest; the number of keys; the settings; the batch

FLIGHT_S = 1.0  # for one batch, connecting included; connecting, and each read, may take half of it
MAX_BATCH = 128  # operations in one batch: about 1 ms during which Redis serves nobody else
MAX_BATCH_BYTES = 4 << 20  # for the same reason; an operation that is larger travels alone
MAX_QUEUED = 20_000  # operations waiting for the batch under way; more than callers a process can have

Reply = list[Any]

_encode = msgspec.msgpack.Encoder().encode


class NotDone(StateUnavailable):
    """What was asked was certainly not done."""


class Link:
    """Asks the script, which is given `settings` with each batch. `on_failure` hears why Redis stops answering."""

    def __init__(self, redis: Redis, settings: dict[str, Any], on_failure: Callable[[str], None]) -> None:
        self.is_up = False
        self._redis = redis
        self._settings = packed(b"0", msgspec.msgpack.encode(settings))  # behind the number of keys
        # Whichever server this connects to, it may have been restarted without what was written last.
        greeting = packed(_array([_encode(("greet",))]))
        self._connection = Dedicated(redis, (WORDS, (BY_TEXT, self._settings, greeting)))
        self._on_failure = on_failure
        self._operations: list[bytes] = []  # that wait for the batch under way
        self._asked: list[asyncio.Future[Reply]] = []  # where the reply to each of them is awaited
        self._flight: asyncio.Task[None] | None = None

    def ask(self, *operation: Any, probing: bool = False) -> asyncio.Future[Reply]:
        """The script's reply. Raises StateUnavailable; unless that is a NotDone, the operation may have been done.

        `probing`: asks even if Redis seems to be away.
        """
        if not (self.is_up or probing):
            raise NotDone("the state cannot be reached")
        if len(self._asked) >= MAX_QUEUED:
            raise NotDone("too many operations wait for the state")
        if self._flight is None:
            self._loop = asyncio.get_running_loop()  # a system call, so not for each operation
            self._flight = self._loop.create_task(self._fly())
        self._operations.append(_encode(operation))
        asked: asyncio.Future[Reply] = self._loop.create_future()
        self._asked.append(asked)
        return asked

    async def aclose(self) -> None:
        """Fails whatever has no reply yet."""
        self.is_up = False
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)
        self._fail([], "the state is closed")
        await self._connection.aclose()

    async def _fly(self) -> None:
        asked: list[asyncio.Future[Reply]] = []
        try:
            while self._operations:
                batch, asked = self._next_batch()
                async with asyncio.timeout(FLIGHT_S):
                    replies = await self._run(batch)
                _hand_out(replies, asked)
                asked = []
        except (RedisError, OSError, TimeoutError) as exc:
            was_up, self.is_up = self.is_up, False
            self._fail(asked, f"the state cannot be reached: {type(exc).__name__}")
            if was_up:
                self._on_failure(f"{type(exc).__name__}: {exc}")
            # Another server may be the primary by now: which one is found out when the next connection is made.
            await self._connection.aclose()
            await self._redis.connection_pool.disconnect(inuse_connections=False)
        finally:
            self._flight = None
            self._fail(asked, "the state cannot be reached")

    def _next_batch(self) -> tuple[bytes, list[asyncio.Future[Reply]]]:
        """Takes as many of the waiting operations as fit into one batch."""
        batch = self._operations[:MAX_BATCH]
        size_bytes = sum(map(len, batch))
        while size_bytes > MAX_BATCH_BYTES and len(batch) > 1:
            size_bytes -= len(batch.pop())
        asked = self._asked[: len(batch)]
        del self._operations[: len(batch)], self._asked[: len(batch)]
        return _array(batch), asked

    async def _run(self, batch: bytes) -> list[Reply | bytes]:
        rest = (self._settings, packed(batch))
        replies: list[Reply | bytes]
        try:
            replies = await self._connection.ask(WORDS, (BY_DIGEST, *rest))
        except NoScriptError:  # somebody had the server forget its scripts; nothing of this batch was run
            replies = await self._connection.ask(WORDS, (BY_TEXT, *rest))
        return replies

    def _fail(self, sent: list[asyncio.Future[Reply]], reason: str) -> None:
        """Fails a batch that was sent, and all operations that wait behind it."""
        for failure, futures in ((StateUnavailable(reason), sent), (NotDone(reason), self._asked)):
            for asked in futures:
                if not asked.done():
                    asked.set_exception(failure)
        self._operations.clear()
        self._asked.clear()


def _hand_out(replies: list[Reply | bytes], asked: list[asyncio.Future[Reply]]) -> None:
    for reply, one in zip(replies, asked, strict=True):
        if one.done():  # whoever asked was cancelled
            continue
        if not isinstance(reply, list):
            one.set_result([reply])
        elif reply[0] == b"error":
            one.set_exception(StateUnavailable(f"the state refused: {reply[1].decode('utf-8', 'replace')}"))
        else:
            one.set_result(reply)


def _array(items: list[bytes]) -> bytes:
    """MessagePack's array of items that are encoded already."""
    return b"\xdc" + len(items).to_bytes(2, "big") + b"".join(items)
