"""The data in a Redis Cluster, in the partitions of `cluster_map`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis.exceptions import ClusterDownError, MovedError

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.cluster_inspection import warnings_of_nodes
from gateway.redisclient.cluster_listening import ClusterListening
from gateway.redisclient.cluster_map import ClusterMap, placements
from gateway.redisclient.cluster_scripts import ClusterScript, PartitionScripts
from gateway.redisclient.connections import Tls
from gateway.redisclient.store import ChannelListener, ScriptOptions, Scripts


class ClusterStore:
    """Implements `store.PartitionStore`."""

    publishing = "SPUBLISH"

    def __init__(self, address: RedisAddress, tls: Tls | None = None) -> None:
        """Raises OSError (SSLError is one) when the files of `tls` cannot be used."""
        self._nodes = ClusterMap(address, tls)
        self._by_text: dict[bytes, ClusterScript] = {}
        self.prefixes = [part.prefix for part in placements()]

    @property
    def place(self) -> str:
        return self._nodes.place

    def scripts(
        self, partition: int, script: bytes, options: ScriptOptions, on_failure: Callable[[str], None]
    ) -> Scripts:
        if script not in self._by_text:
            self._by_text[script] = ClusterScript(self._nodes, script)
        return PartitionScripts(self._by_text[script], partition, options, on_failure)

    async def listen(self, channels: Sequence[str], listener: ChannelListener) -> None:
        await ClusterListening(self._nodes, channels, listener).run()

    async def publish(self, partition: int, channel: str, message: bytes) -> None:
        node = self._nodes.owners[partition]
        if node is None:
            raise ClusterDownError("no node has the partition")
        name = self.prefixes[partition] + channel
        try:
            await node.client.spublish(name, message)
        except MovedError as moved:
            self._nodes.note_move(partition, moved.host, moved.port)
            await self._nodes.at(moved.host, moved.port).client.spublish(name, message)

    async def risks(self) -> list[str]:
        return await warnings_of_nodes(self._nodes)

    async def aclose(self) -> None:
        for script in self._by_text.values():
            await script.aclose()
        await self._nodes.aclose()
