"""A simulation: gateways, servers, tool servers and callers, and what befalls them; all of it decided by a seed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.calls.names import CallNames
from gateway.core.errors import GatewayError
from gateway.core.model import ToolResult
from gateway.core.sealing import Digester, Sealer
from gateway.redisclient.cluster_map import placements
from gateway.redisclient.server_store import ServerStore
from gateway.state.port import StateLimits
from gateway.state.redis import RedisState
from gateway.state.replica_sync import Timing
from tests.simulation.client import SimulatedRedis
from tests.simulation.cluster import Cluster, few_partitions, open_store
from tests.simulation.gateway import KEYS, TIMEOUT_S, Gateway, GoneError, called
from tests.simulation.loop import HERE, START_S, Machine, VirtualLoop, on, virtual_time
from tests.simulation.script import unpack
from tests.simulation.servers import Network, Server, operations_in
from tests.simulation.telling import told_operations
from tests.simulation.toolserver import Plan, planned

SKEW_S = 30.0  # by which clocks are wrong, either way
TIMING = Timing(beat_s=2.5, poll_s=4.0)
LONGEST_S = 120.0  # for everything to come to an end
RESTS_S = 3.0  # at least, after the last caller has gone
QUIET_S = 18.0  # for everything that heals by itself then
LONG_AGO_MS = int((START_S - 1e6) * 1000)
REPLY_WITHIN_S = (
    2 * TIMEOUT_S + 10.0
)  # a request to a gateway that nothing happens to; a call may be begun anew meanwhile


@dataclass
class Loss:
    """What servers lost at one moment: by the key of each call, who had written about it, and since when."""

    at_s: float
    writers: dict[str, set[Machine]]
    since_s: dict[str, float]


@dataclass
class Caller:
    """Asks for a call until it has a final answer."""

    plan: Plan
    backend: str
    call_id: str
    principal: str
    begins_s: float
    wait_s: float
    was_accepted: bool = False
    answers: list[tuple[float, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    is_done: bool = False


class World:
    """Everything there is."""

    def __init__(self, seed: int, loop: VirtualLoop, *, tells: bool = False) -> None:
        self.seed = seed
        self.loop = loop
        self.chance = random.Random(seed)
        self.network = Network(loop, seed)
        self.concurrency = self.chance.choice((1, 2, 100))
        self.plans: dict[str, Plan] = {}
        self.servers: list[Server] = []
        self.gateways: list[Gateway] = []
        self.callers: list[Caller] = []
        self.losses: list[Loss] = []
        self.outdated: dict[str, set[Machine]] = {}  # whom a primary that was replaced has answered, by key
        self.began: dict[str, set[Machine]] = {}  # for whom each call was begun, by its key
        self.held_by_dead: set[str] = set()  # calls whose outcomes died with the gateway that held them back
        self.story: list[str] = []
        self._tells = tells
        self._numbers = 0
        self.before_operation: Callable[[Machine, list[bytes]], None] = lambda by, names: None
        self.after_operation = self.before_operation
        self.cluster = Cluster() if is_cluster(seed) else None
        self.primaries = [self.add_server({})]
        if self.cluster is not None:
            self.primaries.append(self.add_server({}))
            for number, part in enumerate(placements()):
                self.cluster.give(part.slot, self.primaries[number % len(self.primaries)])
                self.primaries[number % len(self.primaries)].settle_in(part.prefix, LONG_AGO_MS)
        else:
            self.primaries[0].settle_in("toolgate:", LONG_AGO_MS)
        for _ in range(self.chance.choice((2, 3, 3))):
            self.add_gateway()

    def _chance(self, what: str) -> random.Random:
        """For each actor its own, so that the order of two that does not matter changes nothing else."""
        return random.Random(f"{self.seed} {what}")

    def note(self, text: str) -> None:
        if self._tells:
            self.story.append(f"{self.loop.now:9.4f} {text}")

    # Servers and gateways.

    def add_server(self, data: dict[bytes, Any]) -> Server:
        self._numbers += 1
        name = f"server-{self._numbers}"
        chance = self._chance(name)
        server = Server(name, self.network, chance, chance.uniform(-SKEW_S, SKEW_S))
        server.start(data)
        self.servers.append(server)
        server.after = self._after
        if self.cluster is not None:
            server.refuses = self.cluster.refusal
        server.before = lambda at, by, packed: self.before_operation(by, operations_in(packed))
        return server

    def _after(self, server: Server, by: Machine, packed: bytes, reply: Any) -> None:
        if self._tells:
            for told in told_operations(packed, reply, self.call_names):
                self.note(f"{server.name} has done for {by}: {told}")
        if server not in self.primaries:
            for operation in unpack(packed):
                if len(operation) > 1 and isinstance(operation[1], bytes):
                    self.outdated.setdefault(operation[1].decode(errors="replace"), set()).add(by)
        names = operations_in(packed)
        if b"begin" in names and isinstance(reply, list):
            for operation, begun in zip(unpack(packed), reply, strict=True):
                if operation[0] == b"begin" and begun[0] in (b"new", b"created"):
                    self.began.setdefault(operation[1].decode(), set()).add(by)
        self.after_operation(by, names)

    @property
    def call_names(self) -> dict[str, str]:
        """The names of calls by their keys."""
        names = CallNames(Digester(KEYS, "calls"), partitions=self.gateways[0].state.partitions)
        return {names.keys_of_id(each.principal, each.call_id)[0]: each.plan.name for each in self.callers}

    def find(self, name: str | None = None) -> Server:
        """The server of that name, else the primary."""
        return next((each for each in self.servers if each.name == name), self.primaries[0])

    def add_gateway(self) -> Gateway:
        self._numbers += 1
        name = f"gateway {self._numbers}"
        machine = Machine(name, self._chance(name).uniform(-SKEW_S, SKEW_S))
        token = HERE.set(machine)
        try:
            state = RedisState(
                open_store(self.cluster) if self.cluster else ServerStore(SimulatedRedis(self.find)),  # type: ignore[arg-type]
                StateLimits(),
                Sealer(KEYS, "state"),
                timing=TIMING,
            )
            gateway = Gateway(self, machine, state)
        finally:
            HERE.reset(token)
        on(machine, gateway.start())
        self.gateways.append(gateway)
        return gateway

    # Callers, and tool servers that call back.

    def add_callers(self, number: int) -> None:
        """One call, and those who ask for it: each with the same id, at any gateway."""
        chance = self._chance(f"call {number}")
        plan = planned(f"call {number}", chance)
        self.plans[plan.name] = plan
        backend, principal = chance.choice(("later", "later", "now")), chance.choice(("ada", "bob", "cyd"))
        begins_s = chance.uniform(0.5, 12.0)
        for _ in range(chance.choice((1, 1, 2, 3))):
            wait_s = chance.choice((TIMEOUT_S, TIMEOUT_S, 1.0, 0.0))
            after_s = chance.choice((0.0, 0.0005, 0.1, 5.0, 15.0))
            caller = Caller(plan, backend, plan.name, principal, begins_s + after_s, wait_s)
            self.callers.append(caller)
            name = f"caller {len(self.callers)}"
            self.loop.create_task(self._insist(caller, name, self._chance(name)))

    async def _insist(self, caller: Caller, name: str, chance: random.Random) -> None:
        await asyncio.sleep(caller.begins_s)
        call = called(caller.plan.name, caller.call_id)
        gateway, kind = chance.choice(self._answering()), chance.choice(("anywhere", "stays", "shuns"))
        while not caller.is_done:
            if kind == "anywhere" or gateway not in self._answering():
                gateway = chance.choice(self._answering())
            work = lambda at=gateway: at.run(  # noqa: E731
                call, caller.backend, caller.principal, caller.plan.is_idempotent, caller.wait_s
            )
            asked_s = self.loop.now
            try:
                async with asyncio.timeout(REPLY_WITHIN_S):
                    view = await gateway.ask(name, work)
            except GoneError:
                if kind == "shuns":
                    gateway = self._another(gateway, chance)
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                continue
            except TimeoutError:
                if not was_absent(gateway.machine, asked_s, self.loop.now):
                    caller.complaints.append(f"{gateway.machine} did not answer from {asked_s:.3f} s on")
                continue
            self._read(caller, gateway, view.status)
            if kind == "shuns" and isinstance(view.status, GatewayError):
                gateway = self._another(gateway, chance)
            if not caller.is_done:
                await asyncio.sleep(chance.uniform(0.05, 3.0))

    def _another(self, shunned: Gateway, chance: random.Random) -> Gateway:
        there = self._answering()
        return chance.choice([each for each in there if each is not shunned] or there)

    def _read(self, caller: Caller, gateway: Gateway, status: Any) -> None:
        self.note(f"{gateway.machine} answers {caller.plan.name}: {_short(status)}")
        if status is None:
            caller.was_accepted = True
        elif isinstance(status, GatewayError):
            if status.code not in ("backend_unavailable", "rate_limited"):
                caller.complaints.append(f"refused: {status.code} {status.message}")
                caller.is_done = True
        elif isinstance(status, ToolResult):
            if status.failure is None or not status.failure.can_retry:
                answer = status.value if status.failure is None else status.failure.message
                caller.answers.append((self.loop.now, answer))
                caller.is_done = True
        else:
            caller.complaints.append(f"strange: {status!r}")
            caller.is_done = True
        if self.loop.now > LONGEST_S:
            caller.is_done = True

    async def deliver(self, url: str, body: bytes) -> int | None:
        """Posts a callback to any gateway; None: nobody has answered."""
        gateway = self.chance.choice(self._answering())
        try:
            async with asyncio.timeout(REPLY_WITHIN_S):
                status: int = await gateway.ask("tools", lambda: gateway.receive(url, body))
        except (GoneError, TimeoutError):
            return None
        self.note(f"{gateway.machine} answers a callback with {status}")
        return status

    def _answering(self) -> list[Gateway]:
        """Those that a load balancer knows of."""
        there = [gateway for gateway in self.gateways if not gateway.machine.is_dead]
        return [gateway for gateway in there if gateway.is_open] or there

    # To the end.

    def run(self, is_at_rest: Callable[[World], bool]) -> None:
        """Runs until everybody has a final answer, and everything has come to rest."""
        for number in range(self.chance.randint(2, 6)):
            self.add_callers(number)
        while self.loop.now < LONGEST_S and not all(caller.is_done for caller in self.callers):
            self.loop.run(self.loop.now + 5.0)
        ends_s = self.loop.now + QUIET_S
        self.loop.run(self.loop.now + RESTS_S)
        while self.loop.now < ends_s and not is_at_rest(self):
            self.loop.run(self.loop.now + RESTS_S)


def was_absent(machine: Machine, from_s: float, to_s: float) -> bool:
    """Whether a machine was frozen, dead or cut off at some time in between."""
    return any(begins_s <= to_s and ends_s >= from_s for begins_s, ends_s in machine.absences)


def _short(status: Any) -> str:
    if isinstance(status, ToolResult):
        return str(status.value) if status.failure is None else status.failure.message
    return repr(status)


@contextmanager
def world(seed: int, *, tells: bool = False) -> Iterator[World]:
    """A world whose time passes only when it is run."""
    with virtual_time(random.Random(seed)) as loop, _errors_in(loop):
        made: list[World] = []
        with few_partitions(lambda name: made[0].find(name)):
            made.append(World(seed, loop, tells=tells))
            yield made[0]


def is_cluster(seed: int) -> bool:
    """Whether the world of a seed has a Redis Cluster: of two shards, with a partition each at first."""
    return seed % 4 == 3


@contextmanager
def _errors_in(loop: VirtualLoop) -> Iterator[None]:
    """Takes what is logged: an error is a bug, and everything else is to be expected."""
    log, handler = logging.getLogger("gateway"), _Errors(loop)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True


class _Errors(logging.Handler):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.errors.append({"message": record.getMessage(), "exception": record.exc_info})
