"""Runs batches of operations of a Lua script on the partitions of a Redis Cluster.

A batch is of one partition. Batches of several partitions on one node travel together, one after the other over one
connection; what is asked meanwhile forms the next ones. Other nodes have connections of their own, so one that is away
does not delay the others.

Each batch names, as its last key, one that never exists. So a node that is giving the partition to another one, key by
key, refuses the batch as a whole before it runs (Redis Cluster specification, ASK and TRYAGAIN): nothing is half done.
Such a batch, and one that came to a node which has the partition no more, is tried again within its time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from gateway.redisclient.batching import (
    MAX_BATCH_BYTES,
    WORDS,
    LuaScript,
    OperationQueue,
    Pending,
    deliver,
    packed_operations,
)
from gateway.redisclient.causes import cause
from gateway.redisclient.cluster_map import ClusterMap, RedisNode, placements
from gateway.redisclient.connections import BATCH_TIMEOUT_S, RedisConnection, pack
from gateway.redisclient.store import ScriptOptions

AGAIN_S = 0.02  # between two attempts at a batch that was refused as a whole
NEVER = "nothing"  # the name, within a partition, of a key that does not exist
REFUSALS = (AskError, TryAgainError, ClusterDownError)  # of the whole batch; MovedError is an AskError

Flight = tuple["PartitionScripts", list[Pending]]


class ClusterScript:
    """One script, on all nodes."""

    def __init__(self, nodes: ClusterMap, text: bytes) -> None:
        self.nodes = nodes
        self.script = LuaScript(text)
        self.open: dict[int, PartitionScripts] = {}
        self._queues: dict[RedisNode, NodeQueue] = {}
        nodes.on_change.append(self._follow)

    def send(self, scripts: PartitionScripts) -> None:
        """Has a partition's queue emptied."""
        node = self.nodes.owners[scripts.number]
        if node is None:
            self.nodes.refresh()
            why = self.nodes.trouble or f"no node has slot {scripts.slot}"
            scripts.try_again(f"{self.nodes.place}: {why}")
            return
        if node not in self._queues:
            self._queues[node] = NodeQueue(self, node)
        self._queues[node].add(scripts)

    def fail(self, node: RedisNode, reason: str) -> None:
        """Fails what waits for a node, and all that would be asked there."""
        for number in self.nodes.of(node):
            if number in self.open:
                self.open[number].fail(reason)
        self.nodes.refresh(node)

    async def _follow(self) -> None:
        """Closes connections to nodes that have no partition any more."""
        for node, queue in list(self._queues.items()):
            partitions = self.nodes.of(node)
            queue.keep(partitions)
            if not partitions:
                await self._queues.pop(node).aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        for queue in self._queues.values():
            await queue.aclose()


class PartitionScripts(OperationQueue):
    """Implements `store.Scripts`."""

    def __init__(
        self,
        script: ClusterScript,
        number: int,
        options: ScriptOptions,
        on_failure: Callable[[str], None],
    ) -> None:
        super().__init__(options, on_failure)
        self.number = number
        self.slot = placements()[number].slot
        self._script = script
        self._never = (placements()[number].prefix + NEVER).encode()
        self._one_key = pack(b"1", self._never)
        self.greeting = self._command(script.script.by_text, (), self._greeting)
        self._until: float | None = None  # when a batch that was refused is not tried again
        self._again: asyncio.TimerHandle | None = None
        script.open[number] = self

    def _start(self) -> None:
        self._script.send(self)

    def command(self, batch: Sequence[Pending], *, by_text: bool) -> list[bytes]:
        """The command that runs a batch."""
        script = self._script.script
        keys = [key for _, of_operation, _ in batch for key in of_operation]
        return self._command(script.by_text if by_text else script.by_digest, keys, packed_operations(batch))

    def _command(self, by: bytes, keys: Sequence[bytes], operations: bytes) -> list[bytes]:
        packed_keys = pack(b"%d" % (len(keys) + 1), *keys, self._never) if keys else self._one_key
        return [b"*%d\r\n" % (WORDS + 1 + len(keys)), by, packed_keys, self._settings, operations]

    def take_reply(self, batch: list[Pending], reply: Any) -> None:
        """Takes the reply to a batch, or what was raised in its place."""
        if isinstance(reply, MovedError):
            self._script.nodes.note_move(self.number, reply.host, reply.port)
        if isinstance(reply, (*REFUSALS, NoScriptError)):
            self._queue[:0] = batch
            self.try_again(f"{self._script.nodes.place}: {cause(reply, self._script.nodes.place)}")
        elif isinstance(reply, ResponseError):
            self.fail(f"{self._script.nodes.place}: {cause(reply, self._script.nodes.place)}", batch)
        else:
            self._until = None
            deliver(reply, batch)
            self.leave()

    def leave(self) -> None:
        """Leaves the line, or stands in it again if more has been asked meanwhile."""
        if self._queue:
            self._script.send(self)
        else:
            self._is_moving = False

    def try_again(self, reason: str) -> None:
        """Nothing of what waits was done; tries it again in a moment, but not for ever."""
        now = self._loop.time()
        first = self._until is None
        if self._until is None:
            self._until = now + BATCH_TIMEOUT_S
        if now >= self._until:
            self.fail(reason)
        else:
            self._again = self._loop.call_later(0 if first else AGAIN_S, self._script.send, self)

    def fail(self, reason: str, batch: Sequence[Pending] = (), *, was_sent: bool = True) -> None:
        """Fails a batch and what waits, and takes no more until the caller says that it is up."""
        was_up, self.is_up = self.is_up, False
        if not was_sent:
            self._queue[:0] = batch
        self._stop(reason, batch if was_sent else ())
        if was_up:
            self._on_failure(reason)

    def _stop(self, reason: str, batch: Sequence[Pending] = ()) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again, self._until, self._is_moving = None, None, False
        self._fail(batch, reason)

    async def aclose(self) -> None:
        """Fails all operations that have no reply yet."""
        self.is_up = False
        self._script.open.pop(self.number, None)
        self._stop("the state is closed")


class NodeQueue:
    """The partitions that have something to ask of a node, and the connection over which they do."""

    def __init__(self, script: ClusterScript, node: RedisNode) -> None:
        self._script = script
        self._node = node
        self._connection = RedisConnection(node.client)
        self._greeted: set[PartitionScripts] = set()  # over this connection
        self._waiting: list[PartitionScripts] = []
        self._by_text = False
        self._is_sent = False
        self._flight: asyncio.Task[None] | None = None

    def add(self, scripts: PartitionScripts) -> None:
        """Has a partition stand in line."""
        self._waiting.append(scripts)
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly())

    def keep(self, numbers: Collection[int]) -> None:
        """Greets other partitions than these anew, should they come back."""
        self._greeted = {scripts for scripts in self._greeted if scripts.number in numbers}

    async def _fly(self) -> None:
        flights: list[Flight] = []
        reason = "the state cannot be reached"
        try:
            while self._waiting:
                self._board(flights)
                self._is_sent = False
                async with asyncio.timeout(BATCH_TIMEOUT_S):
                    await self._run(flights)
        except (RedisError, OSError, TimeoutError) as exc:
            reason = f"{self._node.client.place}: {cause(exc, self._node.client.place)}"
            await self._connection.aclose()
            self._script.fail(self._node, reason)
        finally:
            self._flight = None
            stranded, self._waiting = dict.fromkeys(self._waiting), []
            for scripts, batch in flights:
                stranded.pop(scripts, None)
                scripts.fail(reason, batch, was_sent=self._is_sent)
            for scripts in stranded:
                scripts.fail(reason)

    def _board(self, flights: list[Flight]) -> None:
        """Takes a batch of each partition, as long as they are not too large together."""
        line, size_bytes = list(dict.fromkeys(self._waiting)), 0
        while line and size_bytes < MAX_BATCH_BYTES:
            scripts = line.pop(0)
            batch = scripts.next_batch()
            if batch:
                flights.append((scripts, batch))
                size_bytes += sum([len(operation) for operation, _, _ in batch])
        self._waiting = line

    async def _run(self, flights: list[Flight]) -> None:
        """Runs batches; takes from the list what has a reply."""
        if await self._connection.renew():
            self._greeted.clear()
        if not self._greeted.issuperset([scripts for scripts, _ in flights]):
            await self._greet(flights)
        by_text, self._by_text, self._is_sent = self._by_text, False, True
        await self._connection.send(
            [piece for scripts, batch in flights for piece in scripts.command(batch, by_text=by_text)]
        )
        while flights:
            reply = await self._read()
            scripts, batch = flights.pop(0)
            if isinstance(reply, ResponseError):
                self._by_text = self._by_text or isinstance(reply, NoScriptError)
                self._greeted.discard(scripts)
            scripts.take_reply(batch, reply)

    async def _greet(self, flights: list[Flight]) -> None:
        """Greets partitions that are new here; drops the batches of those that are elsewhere."""
        strangers = [flight for flight in flights if flight[0] not in self._greeted]
        await self._connection.send([piece for scripts, _ in strangers for piece in scripts.greeting])
        for flight in strangers:
            scripts, batch = flight
            reply = await self._read()
            if isinstance(reply, ResponseError):
                flights.remove(flight)
                scripts.take_reply(batch, reply)
            else:
                self._greeted.add(scripts)

    async def _read(self) -> Any:
        """A reply, or what the node has refused the command with."""
        try:
            return await self._connection.read()
        except ResponseError as refusal:
            return refusal

    async def aclose(self) -> None:
        """Waits for the batches under way, and closes the connection."""
        if self._flight is not None:
            await asyncio.gather(self._flight, return_exceptions=True)
        await self._connection.aclose()
