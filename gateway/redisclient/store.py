"""Where shared data are: one Redis server, with or without sentinels, or a Redis Cluster.

In a cluster a script may touch keys of one slot only. So the data are divided into partitions: all keys of one begin
with its prefix, whose hash tag puts them into one slot. What belongs to a caller is in the partition of that caller.
One server has a single partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

Reply: TypeAlias = list[Any]

MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"  # of partitions: how keys of calls begin


def partition_of(owner: str, partitions: int) -> int:
    """The number of the partition that has what belongs to a caller, or the like.

    It depends on nothing that an operator may change, or the data would be looked for elsewhere.
    """
    return blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % partitions


class ScriptOptions(Struct, frozen=True, kw_only=True):
    """How a script is run."""

    max_batch: int  # operations in one call of the script
    settings: object = None  # what each call of it gets beside the operations
    greeting: Sequence[Sequence[Any]] = ()  # operations to begin with on a server that has, or just got, the partition


class Scripts(Protocol):
    """Runs operations of one script on one partition. `is_up`: operations are taken; the caller sets it again."""

    is_up: bool

    def ask(self, *operation: Any, keys: Sequence[bytes] = (), probing: bool = False) -> asyncio.Future[Reply]:
        """The script's reply. Raises StateUnavailable; unless that is a NotDone, the operation may have been done.

        `probing`: asks even if the server seems to be away.
        """

    async def aclose(self) -> None:
        """Fails all operations that have no reply yet."""


class ChannelListener(Protocol):
    """Hears what `PartitionStore.listen` reports, each with the number of a partition."""

    def on_message(self, partition: int, channel: str, message: bytes) -> None:
        """A message came; `channel` is without the prefix of the partition."""

    def on_subscribed(self, partition: int) -> None:
        """Its channels are listened to, perhaps again: messages sent meanwhile are lost."""

    def on_unsubscribed(self, partition: int) -> None:
        """Its channels are no longer listened to: the connection broke, or the partition has moved."""


class PartitionStore(Protocol):
    """The data of all partitions, which are numbered from 0."""

    @property
    def place(self) -> str:
        """The URL without user and password, for logs."""

    @property
    def prefixes(self) -> Sequence[str]:
        """What the keys and channels of each partition begin with."""

    @property
    def publishing(self) -> str:
        """The command with which a script sends a message to a channel of its partition."""

    def scripts(
        self, partition: int, script: bytes, options: ScriptOptions, on_failure: Callable[[str], None]
    ) -> Scripts:
        """Runs a script on a partition. `on_failure` is called with the reason when that stops answering."""

    async def listen(self, channels: Sequence[str], listener: ChannelListener) -> None:
        """Listens to these channels of every partition until it is cancelled; connects again after each failure."""

    async def publish(self, partition: int, channel: str, message: bytes) -> None:
        """Sends a message to those that listen to a channel of a partition. Raises RedisError, OSError."""

    async def risks(self) -> list[str]:
        """In which ways the servers may lose calls, as far as they say."""

    async def aclose(self) -> None:
        """Closes all connections."""
