"""Listens to the channels of all partitions of a Redis Cluster, by sharded publish and subscribe.

There is one subscription for each node that has partitions. redis-py's own for clusters asks one node after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.client import PubSub
from redis.exceptions import MovedError, RedisError

from gateway.core.backoff import Backoff
from gateway.redisclient.cluster_map import ClusterMap, RedisNode, placements
from gateway.redisclient.connections import LISTEN_S, RETRIES_S, cancel
from gateway.redisclient.store import ChannelListener


class ClusterListening:
    """Keeps a subscription to each node for the partitions that it has."""

    def __init__(self, nodes: ClusterMap, channels: Sequence[str], listener: ChannelListener) -> None:
        self.nodes = nodes
        self.listener = listener
        self.channels = channels
        self._changed = asyncio.Event()
        self._subscriptions: dict[RedisNode, Subscription] = {}

    async def run(self) -> None:
        """Listens until it is cancelled."""
        self.nodes.on_change.append(self._note)
        try:
            while True:
                self._changed.clear()
                if not self.nodes.nodes():
                    self.nodes.refresh()
                await self._follow()
                await self._changed.wait()
        finally:
            self.nodes.on_change.remove(self._note)
            for subscription in self._subscriptions.values():
                subscription.stop()
            for subscription in self._subscriptions.values():
                await subscription.aclose()

    async def _note(self) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        partitions = {node: set(self.nodes.of(node)) for node in self.nodes.nodes()}
        for node in self._subscriptions.keys() - partitions.keys():
            await self._subscriptions.pop(node).aclose()
        for node, numbers in partitions.items():
            if node not in self._subscriptions:
                self._subscriptions[node] = Subscription(self, node)
            await self._subscriptions[node].listen_to(numbers)


class Subscription:
    """Listens at one node; connects again after each failure."""

    def __init__(self, listening: ClusterListening, node: RedisNode) -> None:
        self._nodes, self._listener = listening.nodes, listening.listener
        self._channels = listening.channels
        self._node = node
        self._partitions: set[int] = set()
        self._subscribed: set[int] = set()  # those whose channels are subscribed to
        self._names: dict[bytes, tuple[int, str]] = {}
        self._pubsub: PubSub | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def listen_to(self, numbers: set[int]) -> None:
        """Sets the partitions of the node: subscribes to those that came, and forgets those that went."""
        added, gone = numbers - self._partitions, self._partitions - numbers
        self._partitions = numbers
        self._end(gone)
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        elif self._pubsub is not None:
            with suppress(RedisError, OSError):  # then whoever reads finds out as well
                await self._subscribe(self._pubsub, added)

    async def _listen(self) -> None:
        backoff = Backoff(*RETRIES_S)
        while not self._is_stopped:
            try:
                async with self._node.client.pubsub() as pubsub:
                    await self._subscribe(pubsub, self._partitions)
                    self._pubsub = pubsub
                    while not self._is_stopped:
                        await self._read(pubsub, backoff)
            except (RedisError, OSError):
                self._pubsub = None
                self._end(self._partitions)
                self._nodes.refresh(self._node)
                await asyncio.sleep(backoff.next_s())

    async def _subscribe(self, pubsub: PubSub, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            prefix = placements()[number].prefix
            names = {(prefix + channel).encode(): (number, channel) for channel in self._channels}
            self._names.update(names)
            await pubsub.ssubscribe(*names)

    async def _read(self, pubsub: PubSub, backoff: Backoff) -> None:
        try:
            message = await pubsub.get_message(timeout=LISTEN_S)
        except MovedError as moved:
            for number, part in enumerate(placements()):
                if part.slot == moved.slot_id:
                    self._nodes.note_move(number, moved.host, moved.port)
            return
        if message is not None and message["channel"] in self._names:
            self._take(message, backoff)

    def _take(self, message: dict[str, Any], backoff: Backoff) -> None:
        number, channel = self._names[message["channel"]]
        match message["type"]:
            case "smessage":
                self._listener.on_message(number, channel, message["data"])
            case "ssubscribe":
                backoff.reset()
                self._subscribed.add(number)
                self._listener.on_subscribed(number)
            case "sunsubscribe":  # the partition has moved
                self._end({number})
                self._nodes.refresh()

    def _end(self, numbers: Iterable[int]) -> None:
        for number in set(numbers) & self._subscribed:
            self._subscribed.discard(number)
            self._listener.on_unsubscribed(number)

    def stop(self) -> None:
        """Reports its partitions as no longer listened to, and cancels the listening."""
        self._is_stopped = True
        self._end(set(self._subscribed))
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """Stops, and waits until the listening has ended."""
        self.stop()
        if self._task is not None:
            await cancel([self._task])
