"""Calls that wait: callers whose calls are held by the tool server until it is told to release them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from tests.bench.machine import BenchError
from tests.bench.poller import Poller
from tests.bench.subjects import Bed, Running
from tests.bench.swarm import Swarm
from tests.bench.toolserver import ToolServer

ARRIVAL_TIMEOUT_S = 30.0  # for thousands of calls to reach the tool server; they take about a second
GROUP = 50  # callers that come at once


@contextmanager
def waiting_calls(bed: Bed, running: Running, count: int) -> Iterator[Swarm]:
    """Callers whose calls all wait at the tool server. They come in groups: what a rush takes is not their weight."""
    with Swarm(bed.poller, running.port, cycle(running.script.waiting()), running.answer, 0) as swarm:
        while len(swarm) < count:
            swarm.grow(min(GROUP, count - len(swarm)))
            await_arrival(bed.poller, bed.server, len(swarm))
        yield swarm


def await_arrival(poller: Poller, server: ToolServer, count: int) -> None:
    """Returns when `count` calls wait at the tool server."""
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while server.held < count:
        if time.monotonic() > deadline:
            raise BenchError(f"Only {server.held} of {count} waiting calls reached the tool server.")
        poller.turn()
