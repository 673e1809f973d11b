"""The data on one Redis server, or on the one that sentinels call the primary: a single partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from redis.exceptions import RedisError

from gateway.core.backoff import Backoff
from gateway.redisclient.connections import RedisClient
from gateway.redisclient.inspection import risks
from gateway.redisclient.script_client import ScriptClient
from gateway.redisclient.store import ChannelListener, ScriptOptions, Scripts

FIRST_RETRY_S, LAST_RETRY_S = 0.05, 1.0  # pauses between two attempts to subscribe
LISTEN_S = 5.0  # how long one read of the subscription waits before it checks its connection
ONLY = 0  # the number of the partition


class ServerStore:
    """Implements `store.Store`. It closes the client."""

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
        backoff = Backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            try:
                async with self._redis.pubsub() as subscription:
                    await subscription.subscribe(*(prefix + channel for channel in channels))
                    while True:
                        message = await subscription.get_message(timeout=LISTEN_S)
                        if message is not None and message["type"] == "message":
                            channel = message["channel"].decode().removeprefix(prefix)
                            listener.heard(ONLY, channel, message["data"])
                        elif message is not None:
                            backoff.reset()
                            listener.subscribed(ONLY)
            except (RedisError, OSError):
                listener.deaf(ONLY)
                await asyncio.sleep(backoff.next_s())

    async def publish(self, partition: int, channel: str, message: bytes) -> None:
        await self._redis.publish(self.prefixes[partition] + channel, message)

    async def risks(self) -> list[str]:
        return await risks(self._redis)

    async def aclose(self) -> None:
        await self._redis.aclose()
