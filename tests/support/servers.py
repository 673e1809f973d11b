"""Tool servers as real processes, for tests that are not coroutines."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests import plainhttp

DEADLINE_S = 30.0  # for anything that takes well under a second on an idle machine


@contextmanager
def running(module: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Starts a server on a free port and yields its URL and process; in the end it must stop without a word."""
    command = [sys.executable, "-m", module, "--port", "0", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], DEADLINE_S)[0], "not ready in time"
        line = process.stdout.readline().decode()
        assert line.startswith("listening on http://127.0.0.1:"), line
        yield line.removeprefix("listening on ").strip(), process
        process.terminate()
        assert process.communicate(timeout=DEADLINE_S) == (b"", b"")
    finally:
        process.kill()
        process.communicate()


@contextmanager
def connected(module: str, *arguments: str) -> Iterator[httpx.Client]:
    """A caller of a server of its own."""
    with running(module, *arguments) as (url, _), plainhttp.client(base_url=url, timeout=DEADLINE_S) as client:
        yield client
