"""The data on one Redis server, or on the one that sentinels call the primary: a single partition.

One batch of operations is under way at a time, and what is asked meanwhile forms the next, so an operation is cheaper
the more there are: those of one call cost 390,000 instructions here when asked alone, 160,000 with 16 callers. Nothing
waits for a Redis that is away: the batch under way fails within its time limit, everything else at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from gateway.core.backoff import Backoff
from gateway.redisclient.batching import NO_KEYS, WORDS, LuaScript, OperationQueue, Pending, deliver, packed_operations
from gateway.redisclient.causes import cause
from gateway.redisclient.connections import (
    BATCH_TIMEOUT_S,
    LISTEN_S,
    RETRIES_S,
    RedisClient,
    RedisConnection,
    pack,
    place_of,
)
from gateway.redisclient.inspection import risks
from gateway.redisclient.store import ChannelListener, Reply, ScriptOptions, Scripts

ONLY = 0  # the number of the partition


class ScriptClient(OperationQueue):
    """Implements `store.Scripts`. Each connection begins with the greeting."""

    def __init__(self, redis: Redis, script: bytes, options: ScriptOptions, on_failure: Callable[[str], None]) -> None:
        super().__init__(options, on_failure)
        self._redis = redis
        self._script = LuaScript(script)
        greet = (self._script.by_text, NO_KEYS, self._settings, self._greeting)
        self._connection = RedisConnection(redis, (WORDS, greet))
        self._flight: asyncio.Task[None] | None = None

    def _start(self) -> None:
        self._flight = self._loop.create_task(self._fly())

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
                batch = self.next_batch()
                async with asyncio.timeout(BATCH_TIMEOUT_S):
                    replies = await self._run(batch)
                deliver(replies, batch)
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
            self._flight, self._is_moving = None, False
            self._fail(batch, "the state cannot be reached")

    async def _run(self, batch: list[Pending]) -> list[Reply | bytes]:
        keys = [key for _, of_operation, _ in batch for key in of_operation]
        rest = (
            pack(b"%d" % len(keys), *keys) if keys else NO_KEYS,
            self._settings,
            packed_operations(batch),
        )
        replies: list[Reply | bytes]
        try:
            replies = await self._connection.execute(WORDS + len(keys), (self._script.by_digest, *rest))
        except NoScriptError:  # SCRIPT FLUSH was called on the server; nothing of this batch was run
            replies = await self._connection.execute(WORDS + len(keys), (self._script.by_text, *rest))
        return replies


class ServerStore:
    """Implements `store.PartitionStore`. It closes the client."""

    publishing = "PUBLISH"
    prefixes: Sequence[str] = ("toolgate:",)

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis

    @property
    def place(self) -> str:
        return self._redis.place

    def scripts(
        self, partition: int, script: bytes, options: ScriptOptions, on_failure: Callable[[str], None]
    ) -> Scripts:
        return ScriptClient(self._redis, script, options, on_failure)

    async def listen(self, channels: Sequence[str], listener: ChannelListener) -> None:
        (prefix,) = self.prefixes
        backoff = Backoff(*RETRIES_S)
        while True:
            try:
                async with self._redis.pubsub() as subscription:
                    await subscription.subscribe(*(prefix + channel for channel in channels))
                    while True:
                        message = await subscription.get_message(timeout=LISTEN_S)
                        if message is not None and message["type"] == "message":
                            channel = message["channel"].decode().removeprefix(prefix)
                            listener.on_message(ONLY, channel, message["data"])
                        elif message is not None:
                            backoff.reset()
                            listener.on_subscribed(ONLY)
            except (RedisError, OSError):
                listener.on_unsubscribed(ONLY)
                await asyncio.sleep(backoff.next_s())

    async def publish(self, partition: int, channel: str, message: bytes) -> None:
        await self._redis.publish(self.prefixes[partition] + channel, message)

    async def risks(self) -> list[str]:
        return await risks(self._redis)

    async def aclose(self) -> None:
        await self._redis.aclose()
