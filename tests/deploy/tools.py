"""Programs that are not Python's, what a test says when one of them is not there, and waiting for what they do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

CHECKOUT = Path(__file__).parents[2]
T = TypeVar("T")
POLL_S = 0.1
RUN_S = 60.0  # for a program that only reads files


def program(name: str, package: str) -> str:
    """Where a program is; without it the test is skipped, saying which package of Debian has it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: {package})")
    return found


def beside_python(name: str) -> str:
    """A program that was installed with the requirements of these tests."""
    path = Path(sys.executable).with_name(name)
    assert path.exists(), f"{name} is missing: run `make test-deploy`"
    return str(path)


def need_namespaces() -> None:
    """Skips the test unless this process may make network and mount namespaces."""
    if os.geteuid() != 0:
        pytest.skip("making namespaces takes root")
    tried = subprocess.run(
        [program("unshare", "util-linux"), "--net", "--mount", "true"], capture_output=True, text=True, timeout=RUN_S
    )
    if tried.returncode:
        pytest.skip(f"this machine makes no namespaces: {tried.stderr.strip()}")


def output(*command: str, timeout_s: float = RUN_S) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=CHECKOUT)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def until(look: Callable[[], T | None], what: str, within_s: float = 30.0) -> T:
    """What `look` finds, as soon as it finds something that is true."""
    deadline = time.monotonic() + within_s
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"after {within_s:g} s still not: {what}"
        time.sleep(POLL_S)


def free_ports(count: int) -> list[int]:
    """Ports without a listener; another process may take one before it is used."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
