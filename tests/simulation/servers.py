"""Redis servers and the network to them: primaries, copies that lag behind, and connections that break.

A server carries out what it is sent in the order in which that arrives; a frozen one does so once it is thawed,
although nobody waits for the replies any more. What a primary writes reaches its copy later; what has not when the
primary dies is lost, and so is what was not yet on the disk of a server that dies alone.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import hiredis
from redis.crc import key_slot

from tests.simulation.commands import Copy, Data
from tests.simulation.loop import START_S, Machine, VirtualLoop
from tests.simulation.script import Script, script

CALL = re.compile(rb"\{([^}]+)\}:(?:call|seen|remnant)$")  # the key of a call in a name
OPERATION = re.compile(
    rb"[\x91-\x9f]([\xa3-\xac])(?=[a-z])"
)  # in the packed operations of a batch: the length of a name


USUAL_S = 0.0005  # that a message takes
LATE = 5  # of 256 messages, which take up to 0.8 s


class Written(NamedTuple):
    """What one script has written, and when; `by` is who had asked."""

    at_s: float
    by: Machine
    commands: list[Sequence[bytes]]
    moved: Copy | None = None  # what came from another server

    def calls(self) -> set[str]:
        """The keys of the calls that it is about."""
        names = [name for command in self.commands for name in command[1:3]]
        return {key for name in (*names, *(self.moved or ())) for key in calls_in(name)}


def calls_in(name: bytes) -> list[str]:
    """The key of the call that the name of a Redis key is about, if any."""
    match = CALL.search(name)
    return [] if match is None else [match[1].decode()]


class Network:
    """Delays what is sent, and holds back what is sent between two that are cut off from each other."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.slowness = 1.0
        self._seed = seed
        self._sent: Counter[tuple[str, str]] = Counter()
        self._cut: dict[frozenset[str], list[Callable[[], object]]] = {}

    def delay_s(self, one: str, other: str) -> float:
        """Mostly half a millisecond, at times much more.

        It depends on the two and on how often they have sent, not on what others do at the same moment: Python does not
        say in which order it does things that it keeps in sets.
        """
        self._sent[one, other] += 1
        drawn = crc32(b"%d %b %b %d" % (self._seed, one.encode(), other.encode(), self._sent[one, other]))
        share, is_late = (drawn >> 8) / (1 << 24), drawn & 0xFF < LATE
        return 0.8 * share if is_late else min(2.0, -self.slowness * USUAL_S * math.log(1.0 - share))

    def cut(self, one: str, other: str) -> None:
        self._cut.setdefault(frozenset((one, other)), [])

    def heal(self, one: str, other: str) -> None:
        for deliver in self._cut.pop(frozenset((one, other)), []):
            deliver()

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cut

    def carry(self, one: str, other: str, deliver: Callable[[], object]) -> None:
        """Delivers something that has arrived, or once the two are connected again: TCP sends it until then."""
        held = self._cut.get(frozenset((one, other)))
        if held is None:
            deliver()
        else:
            held.append(deliver)


class Stream:
    """One direction of a connection: what is sent arrives in order."""

    def __init__(self, network: Network, one: str, other: str) -> None:
        self._network, self._ends = network, (one, other)
        self._last_s = 0.0

    def send(self, deliver: Callable[[], object]) -> None:
        when_s = max(self._last_s, self._network.loop.time() + self._network.delay_s(*self._ends))
        self._last_s = when_s
        self._network.loop.call_at(when_s, self._network.carry, *self._ends, deliver)


class Server:
    """One server. `before` is told of each batch that arrives, `after` of each that is done, before it replies."""

    def __init__(self, name: str, network: Network, chance: random.Random, skew_s: float) -> None:
        self.name = name
        self.network = network
        self.machine = Machine(name, skew_s)
        self.copy_lag_s = 0.002
        self.died_s = 0.0
        self.replaced_after = 0  # how many of its writes its successor has
        self.after: Callable[[Server, Machine, bytes, Any], None] = lambda server, by, operations, reply: None
        self.before: Callable[[Server, Machine, bytes], None] = lambda server, by, operations: None
        self.is_primary = True
        self.refuses: Callable[[Server, bytes], hiredis.ReplyError | None] = lambda server, name: None
        self.slots: set[int] = set()
        self.connections: dict[Connection, None] = {}
        self.written: list[Written] = []
        self._chance = chance
        self._inbox: deque[tuple[Connection, list[bytes]]] = deque()
        self.start({})

    def start(self, data: dict[bytes, Any]) -> None:
        """Begins a run with these data."""
        self.machine.is_dead = False
        self.run_id = b"%032x" % self._chance.getrandbits(128)
        self.data = Data(self._pick, lambda command: self._writing.append(command))
        self._writing: list[Sequence[bytes]] = []
        self.data.load(data)
        self.scripts: set[bytes] = set()
        self.base: dict[bytes, Any] = data
        self.written = []

    def settle_in(self, prefix: str, since_ms: int) -> None:
        """Has a partition as if it had run with it for long."""
        kept = {"epoch": b"%d" % since_ms, "birth": b"%d" % since_ms, "server": self.run_id}
        self.base |= {(prefix + name).encode(): (value, None) for name, value in kept.items()}
        self.data.load(self.base)

    def _pick(self, members: list[bytes], count: int) -> list[bytes]:
        return self._chance.sample(members, min(count, len(members)))

    # What happens to it.

    def kill(self) -> None:
        self.machine.is_dead, self.machine.is_frozen = True, False
        self.died_s = self.network.loop.time()
        self._inbox.clear()
        for connection in list(self.connections):
            connection.break_off()

    def hang_up(self, machine: Machine) -> None:
        """Learns that a gateway has died; what it had sent arrives all the same."""
        for connection in [each for each in self.connections if each.machine is machine]:
            connection.close()

    def freeze(self) -> None:
        self.machine.is_frozen = True

    def thaw(self) -> None:
        self.machine.is_frozen = False
        while self._inbox and not (self.machine.is_frozen or self.machine.is_dead):
            self._carry_out(*self._inbox.popleft())

    def arrived_by(self, when_s: float) -> int:
        """How many of its writes had reached its copy, or its disk, by then."""
        return bisect_right(self.written, when_s - self.copy_lag_s, key=lambda each: each.at_s)

    def kept(self, count: int) -> dict[bytes, Any]:
        """What a copy has that got so many of its writes."""
        copy = Data()
        copy.now_ms = self.data.now_ms
        copy.load(self.base)
        for written in self.written[:count]:
            copy.load(written.moved or {})
            for command in written.commands:
                copy.run(command)
        return copy.copy()

    # What it does.

    def receive(self, connection: Connection, command: list[bytes]) -> None:
        if self.machine.is_dead:
            return
        if not self.machine.is_frozen:
            self.before(self, connection.machine, command[-1])
        if self.machine.is_frozen:
            self._inbox.append((connection, command))
        else:
            self._carry_out(connection, command)

    def _carry_out(self, connection: Connection, command: list[bytes]) -> None:
        reply = self._reply(connection, command)
        if not self.machine.is_dead:  # as `after` may decide
            connection.reply(reply)

    def _reply(self, connection: Connection, command: list[bytes]) -> Any:
        self.data.now_ms = int((START_S + self.network.loop.time() + self.machine.skew_s) * 1000)
        name, rest = command[0].upper(), command[1:]
        if name == b"EVAL":
            return self._evaluate(connection, script(rest[0]), rest[1:])
        if name == b"EVALSHA":
            if rest[0] not in self.scripts:
                return hiredis.ReplyError("NOSCRIPT No matching script.")
            return self._evaluate(connection, Script.known[rest[0]], rest[1:])
        if name in (b"SUBSCRIBE", b"SSUBSCRIBE"):
            refusal = self.refuses(self, rest[0])
            if refusal is None:
                connection.channels.update(rest)
            return refusal or [name.lower(), rest[0], len(rest)]
        return hiredis.ReplyError(f"ERR unknown command '{name.decode()}'")

    def _evaluate(self, connection: Connection, what: Script, words: list[bytes]) -> Any:
        keys = int(words[0])
        refusal = self.refuses(self, words[keys]) if keys else None
        if refusal is not None:
            return refusal
        self.scripts.add(what.digest)
        self._writing = []
        self.data.read_only = not self.is_primary
        reply = what.run(self._call, words[1 : 1 + keys], words[1 + keys :])
        if self._writing:
            self.written.append(Written(self.network.loop.time(), connection.machine, self._writing))
        self.after(self, connection.machine, words[-1], reply)
        return reply

    def _call(self, command: Sequence[bytes]) -> Any:
        if command[0] in (b"PUBLISH", b"SPUBLISH"):
            return self._publish(command[0] == b"SPUBLISH", *command[1:])
        if command[0] == b"INFO":
            return b"# Server\r\nrun_id:%b\r\nused_memory:0\r\nmaxmemory:0\r\n" % self.run_id
        return self.data.run(command)

    def _publish(self, is_sharded: bool, channel: bytes, message: bytes) -> int:
        listening = [each for each in self.connections if channel in each.channels]
        for connection in listening:
            connection.reply([b"smessage" if is_sharded else b"message", channel, message])
        return len(listening)

    def forget_channels(self, slot: int) -> None:
        """Tells who listens to channels of a slot that it has moved."""
        for connection in self.connections:
            for channel in [each for each in connection.channels if key_slot(each) == slot]:
                connection.channels.discard(channel)
                connection.reply([b"sunsubscribe", channel, 0])


def operations_in(packed: bytes) -> list[bytes]:
    """The names of the operations of a batch, and perhaps some words that look like them."""
    return [
        packed[at : at + size] for at, size in ((each.end(), each[1][0] & 0x1F) for each in OPERATION.finditer(packed))
    ]


class Connection:
    """One connection of a gateway to a server, as redis-py has it."""

    def __init__(self, server: Server, machine: Machine) -> None:
        self.server = server
        self.machine = machine
        self.channels: set[bytes] = set()
        self.is_open = True
        self.socket_timeout: float | None = None
        self._replies: deque[Any] = deque()
        self._waiting: asyncio.Future[None] | None = None
        network, ends = server.network, (machine.name, server.name)
        self._out, self._back = Stream(network, *ends), Stream(network, *ends)
        server.connections[self] = None

    def send(self, command: list[bytes]) -> None:
        self._out.send(lambda: self.server.receive(self, command))

    def reply(self, reply: Any) -> None:
        self._back.send(lambda: self._arrive(reply))

    def break_off(self) -> None:
        """The server ends it."""
        self.server.connections.pop(self, None)
        self._back.send(lambda: self._arrive(BROKEN_OFF))

    def _arrive(self, reply: Any) -> None:
        if self.is_open:
            self._replies.append(reply)
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)

    @property
    def has_reply(self) -> bool:
        return bool(self._replies)

    async def next_reply(self) -> Any:
        """Waits for the next reply. Raises ConnectionResetError."""
        while not self._replies:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        reply = self._replies.popleft()
        if reply is BROKEN_OFF:
            self.close()
            raise ConnectionResetError("the server has closed the connection")
        return reply

    def close(self) -> None:
        """The gateway ends it; what it has sent arrives all the same."""
        self.is_open = False
        self.server.connections.pop(self, None)


BROKEN_OFF = object()
