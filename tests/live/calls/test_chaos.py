"""Chaos: four replicas on a Redis Cluster of six nodes, two thousand calls that wait, and one fault after the other.

A replica and a primary are killed, one of each is frozen for longer than a lease, and slots move, while callers go on
making calls. No call that a gateway has accepted may be lost, and none may run twice. What Redis itself loses when a
primary dies is measured beside: writes that it has acknowledged and that its replica never got.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.redisclient.cluster_map import placements
from tests.live.calls.site import KEY, Replica, callback_settings, replica
from tests.support.calling import connect, encoded_call
from tests.support.ports import lasting_port
from tests.support.processes import until
from tests.support.redis_cluster import ClusterNode, RedisCluster, running_cluster
from tests.support.tokens import SECRET, token
from tests.support.yard import WORK, Yard, yard

REPLICAS, TEAMS, WAITING = 4, 64, 2000
FROZEN_S = 20.0  # twice a lease, and ten times what a primary may be silent
PAUSE_S = 0.2  # before a refused call is repeated
FLOW_S = 0.02  # between two calls that come while faults happen
SOON_S = 120.0  # for a crowd to be through, on a busy machine
PORTION = 50  # callbacks that go to one replica at a time
MOVED = 6  # slots
WRITERS = 8  # of the ledger, at a time
UNKNOWN = "it is unknown whether the tool ran"


@dataclass
class Works:
    """Everything, running."""

    cluster: RedisCluster
    tools: Yard
    replicas: list[Replica]
    living: list[Replica]
    ends: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    refusals: int = 0

    def ask(self, numbers: Iterable[int]) -> None:
        """Has callers ask until they know how their calls ended."""
        for number in numbers:
            self.ends[number] = asyncio.create_task(self.insist(number))

    async def insist(self, number: int) -> Any:
        """The value of a call, which is repeated as its caller is told to, at one replica after the other."""
        who = token(f"team-{number % TEAMS}", expires_in_s=3600)
        asked = encoded_call(
            WORK, {"number": number}, "Connection: close", f"Authorization: Bearer {who}", call_id=f"call-{number}"
        )
        for turn in itertools.count(number):
            status, document = await _answer(self.replicas[turn % REPLICAS].running.url, asked)
            assert status in (0, 200, 400, 429), (status, document)
            ended = document["result"] if status == 200 else {}
            if ended.get("success"):
                return ended["value"]
            if ended and not ended["error"].get("can_retry"):  # its replica died before it was acknowledged
                assert UNKNOWN in ended["error"]["message"], ended
                self.unknown.add(number)
            self.refusals += status == 400
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("there is no replica")

    async def flow(self, numbers: Iterable[int]) -> None:
        """Makes calls that are called back for as soon as they were taken."""
        for number in numbers:
            self.ask([number])
            taken = [
                each for each in self.ends if each >= WAITING and each in self.tools.taken and not self._done(each)
            ]
            await self.call_back(taken)
            await asyncio.sleep(FLOW_S)

    def _done(self, number: int) -> bool:
        return self.ends[number].done()

    async def call_back(self, numbers: Iterable[int]) -> None:
        """Brings results until they were taken, to whatever replica a load balancer chooses."""
        for portion in _portions(list(numbers)):
            statuses = {503}
            while 503 in statuses:
                one = random.choice(self.living)
                try:
                    statuses = set(await self.tools.call_back(portion, at=one.running.url.removeprefix("http://")))
                except* (OSError, EOFError):
                    statuses = {503}
            assert statuses == {200}, statuses


async def _answer(url: str, asked: bytes) -> tuple[int, dict[str, Any]]:
    """Status and document of an answer; 0 if there is none."""
    try:
        reader, writer = await connect(url)
        try:
            writer.write(asked)
            answer = await reader.read()
        finally:
            writer.close()
    except OSError:
        return 0, {}
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if body else (0, {})


def _portions(numbers: list[int]) -> list[list[int]]:
    return [numbers[start : start + PORTION] for start in range(0, len(numbers), PORTION)]


@asynccontextmanager
async def works(directory: Path) -> AsyncIterator[Works]:
    with running_cluster(directory, {"appendonly": "no"}) as cluster:
        async with yard() as tools, AsyncExitStack() as stack:
            configured = callback_settings(
                tools.url,
                {"timeout": "20s"},
                auth={"jwt": [{"secret": SECRET}]},
                state={"url": cluster.url, "keys": [KEY]},
                logging={"level": "info"},
            )
            replicas = []
            for _ in range(REPLICAS):
                server = {"port": lasting_port(), "admin": {"port": 0}, "callback_url": "http://127.0.0.1:9"}
                replicas.append(await stack.enter_async_context(replica(configured | {"server": server})))
            yield Works(cluster, tools, replicas, list(replicas))


@pytest.mark.anyio
@pytest.mark.soak
@pytest.mark.alone
async def test_no_accepted_call_is_lost_and_none_runs_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with works(tmp_path) as of:
        of.ask(range(WAITING))
        await until(lambda: len(of.tools.taken) == WAITING, "the tool server has all calls", SOON_S)
        flowing = asyncio.create_task(of.flow(itertools.count(WAITING)))
        said = []
        with of.cluster.elections():
            await kill_a_replica(of)
            await of.call_back(range(0, WAITING, 5))
            said.append("killed: " + await kill_a_primary(of))
            await of.call_back(range(1, WAITING, 5))
            await move_slots(of)
            await freeze_a_replica(of, range(2, WAITING, 5))
            said.append("frozen: " + await freeze_a_primary(of, range(3, WAITING, 5)))
            flowing.cancel()
            await asyncio.gather(flowing, return_exceptions=True)
            await until(lambda: of.ends.keys() == of.tools.taken.keys(), "the tool server has all calls", SOON_S)
            await of.call_back(of.ends)
            async with asyncio.timeout(SOON_S):
                values = dict(zip(of.ends, await asyncio.gather(*of.ends.values()), strict=True))
        assert values == {number: {"number": number} for number in of.ends}
        assert of.tools.ran_once
        await until(lambda: unfinished(of.cluster) == 0, "no call counts against a quota any more")
        with capsys.disabled():
            calls = f"{len(values)} calls, {of.refusals} refusals, {len(of.unknown)} unknown until called back for"
            print("", calls, *said, sep="\n")


async def kill_a_replica(of: Works) -> None:
    """Those that are left take over its calls."""
    victim = of.living.pop(0)
    await victim.kill()
    of.replicas[:] = of.living * REPLICAS  # a load balancer knows it soon


async def kill_a_primary(of: Works) -> str:
    """Its replica is elected, and the dead one comes back as the replica of that."""
    victim = of.cluster.nodes[0]
    ledger = Ledger(of.cluster, victim)
    await ledger.write()
    victim.kill()
    await asyncio.to_thread(of.cluster.elected, victim)
    lost = await ledger.lost()
    victim.start()
    await asyncio.to_thread(of.cluster.converges)
    return lost


async def freeze_a_primary(of: Works, numbers: Iterable[int]) -> str:
    """Its replica is elected; when it is thawed it learns that, and loses what the other never got."""
    victim = of.cluster.nodes[1]
    ledger = Ledger(of.cluster, victim)
    await ledger.write()
    victim.freeze()
    await asyncio.gather(asyncio.sleep(FROZEN_S), of.call_back(numbers), asyncio.to_thread(of.cluster.elected, victim))
    victim.thaw()
    await asyncio.to_thread(of.cluster.converges)
    return await ledger.lost()


async def freeze_a_replica(of: Works, numbers: Iterable[int]) -> None:
    """The others take over its calls, as if it were dead; it finds out when it is thawed."""
    victim = of.living.pop()
    victim.running.process.send_signal(signal.SIGSTOP)
    await asyncio.gather(asyncio.sleep(FROZEN_S), of.call_back(numbers))
    victim.running.process.send_signal(signal.SIGCONT)
    of.living.append(victim)


async def move_slots(of: Works) -> None:
    """Moves slots in which calls wait, key by key, to another primary."""
    for place in placements()[:: len(placements()) // MOVED]:
        owner = await asyncio.to_thread(of.cluster.owner, place.slot)
        others = [node for node in of.cluster.awake if node is not owner and node.is_primary()]
        await asyncio.to_thread(of.cluster.begin_move, place.slot, others[0])
        await asyncio.to_thread(of.cluster.move_keys, place.slot, others[0], 5)
        await asyncio.sleep(1.0)  # half way: whoever asks is sent to the other one, which does not have everything
        await asyncio.to_thread(of.cluster.move_keys, place.slot, others[0])
        await asyncio.to_thread(of.cluster.end_move, place.slot, others[0])


class Ledger:
    """Counts at one primary, to see how much of what it acknowledged its replica never got."""

    def __init__(self, cluster: RedisCluster, primary: ClusterNode) -> None:
        self._cluster, self._primary = cluster, primary
        self._key = next(
            name for name in map("{{{}}}ledger".format, itertools.count()) if cluster.owner(name) is primary
        )
        self._acknowledged = 0
        self._writers: list[asyncio.Task[None]] = []

    async def write(self, seconds: float = 1.0) -> None:
        """Writes from now on; returns when some time has passed."""
        self._writers = [asyncio.create_task(self._write()) for _ in range(WRITERS)]
        await asyncio.sleep(seconds)

    async def _write(self) -> None:
        redis = Redis(port=self._primary.port, socket_timeout=FROZEN_S)
        with suppress(RedisError, OSError):
            while True:
                self._acknowledged = max(self._acknowledged, await redis.incr(self._key))
        await redis.aclose()

    async def lost(self) -> str:
        """Stops writing and says what became of it."""
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        owner = await asyncio.to_thread(self._cluster.owner, self._key)
        kept = int(owner.ask("GET", self._key) or 0)
        return f"Redis lost {max(0, self._acknowledged - kept)} of {self._acknowledged} writes that it had acknowledged"


def unfinished(cluster: RedisCluster) -> int:
    """How many calls count as running, at all primaries."""
    primaries = [node for node in cluster.awake if node.is_primary()]
    return sum(node.ask("ZCARD", key) for node in primaries for key in node.ask("KEYS", "toolgate:*pending:*"))
