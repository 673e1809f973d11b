"""The demonstration tool servers as real processes, one of each kind for all tests of this folder."""

from __future__ import annotations

import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests import plainhttp

DEADLINE_S = 30.0  # for anything that takes well under a second on an idle machine


@contextmanager
def running(module: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Starts a server on a free port and yields its URL and process; at the end it must stop cleanly and silently."""
    command = [sys.executable, "-m", f"gateway.demo.{module}", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], DEADLINE_S)[0], "not ready in time"
        line = process.stdout.readline().decode()
        assert line.startswith("listening on http://127.0.0.1:"), line
        yield line.removeprefix("listening on ").strip(), process
        process.terminate()
        output, errors = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, output, errors) == (0, b"", b"")
    finally:
        process.kill()
        process.communicate()


@contextmanager
def connected(module: str, *arguments: str) -> Iterator[httpx.Client]:
    with running(module, *arguments) as (url, _), plainhttp.client(base_url=url, timeout=DEADLINE_S) as client:
        yield client


def words_of_help(module: str) -> set[str]:
    """What `--help` of a server says, which takes no more than its name to ask."""
    command = [sys.executable, "-m", f"gateway.demo.{module}", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return set(re.findall(r"[\w-]+", told.stdout))


@pytest.fixture(scope="session")
def otc() -> Iterator[httpx.Client]:
    with connected("otc_server") as client:
        yield client


@pytest.fixture(scope="session")
def oxp() -> Iterator[httpx.Client]:
    with connected("oxp_server") as client:
        yield client
