"""What no slice can show: the weight of calls that wait, one stream for a crowd, memory under a steady rate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from statistics import median

from tests.bench.figures import Stream, Sustained, Waiting
from tests.bench.machine import BenchError, CpuClock, raise_open_files, rss_bytes
from tests.bench.poller import Poller
from tests.bench.rcrtserver import RcrtServer
from tests.bench.rounds import Place
from tests.bench.subjects import SHORT_MEMORY, Bed, Load, Running, Subject, toolgate
from tests.bench.swarm import Swarm
from tests.bench.toolserver import ToolServer

FEW_TOOLS = 10
CALLED_TOOLS = FEW_TOOLS - 1  # all but the one that waits; as many in a large catalogue, so that only its size differs
SPARE_FILES = 500  # open files a process needs besides the connections of the calls
FILES_PER_WAITING_CALL = 2  # callers and tool server are one process, and so have both ends
ARRIVAL_TIMEOUT_S = 30.0  # for thousands of calls to reach the tool server; they take about a second
GROUP = 50  # callers that come at once
SETTLING_CONNECTIONS = 8
STEADY_RATE = 1000.0  # calls a second
STEADY_CONNECTIONS = 64


def weigh_waiting_calls(place: Place, protocol: str) -> Waiting:
    """Compares the gateway's memory with and without thousands of calls that wait for the tool server."""
    fits = (raise_open_files() - SPARE_FILES) // FILES_PER_WAITING_CALL
    count = min(place.effort.waiting_calls, fits)
    place.say(f"memory of {count:,} waiting calls, {protocol}")
    with place.run(_crowded(protocol)) as (bed, running):
        _warm_up(place, running)  # what the first calls allocate once is not the weight of one
        before = rss_bytes(running.pid)
        with _waiting(place, bed, running, count) as swarm:
            taken = rss_bytes(running.pid) - before
            bed.server.release()
            swarm.finish()
    return Waiting(count, taken / count)


def _crowded(protocol: str, *, redis: bool = False, **state: object) -> Subject:
    config = {"state": {**SHORT_MEMORY, **state}}
    return Subject(protocol, toolgate, FEW_TOOLS, CALLED_TOOLS, protocol=protocol, redis=redis, config=config)


def _warm_up(place: Place, running: Running) -> None:
    with place.swarm(running, Load("", SETTLING_CONNECTIONS)) as swarm:
        swarm.warm_up(place.effort.warm_up_s)
        swarm.finish()


@contextmanager
def _waiting(place: Place, bed: Bed, running: Running, count: int) -> Iterator[Swarm]:
    """Callers whose calls all wait at the tool server. They come in groups: what a rush takes is not their weight."""
    with Swarm(place.poller, running.port, cycle(running.script.waiting), running.proof, 0) as swarm:
        while len(swarm) < count:
            swarm.grow(min(GROUP, count - len(swarm)))
            await_arrival(place.poller, bed.server, len(swarm))
        yield swarm


def await_arrival(poller: Poller, server: ToolServer, count: int) -> None:
    """Returns when `count` calls wait at the tool server."""
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while server.held < count:
        if time.monotonic() > deadline:
            raise BenchError(f"Only {server.held} of {count} waiting calls reached the tool server.")
        poller.turn()


def crowd_on_one_stream(place: Place) -> Stream:
    """Has a crowd call breadcrumb tools all at once, a few times, and answers when all of them have asked."""
    count, times = place.effort.stream_calls, place.effort.stream_times
    raise_open_files()
    place.say(f"{count:,} calls at once on one event stream")
    walls_s, used_s = [], []
    with place.run(_crowded("rcrt")) as (bed, running):
        _warm_up(place, running)
        clock = CpuClock(running.pid)
        for _ in range(times):
            begin, before_s = time.perf_counter(), clock.now_s()
            with _waiting(place, bed, running, count) as swarm:
                bed.server.release()
                swarm.finish()
                walls_s.append(time.perf_counter() - begin)
                used_s.append(clock.now_s() - before_s)
        assert isinstance(bed.server, RcrtServer)
        if bed.server.streams != 1:
            raise BenchError(f"The gateway opened {bed.server.streams} event streams instead of one.")
    return Stream(count, median(walls_s), median(used_s) / count * 1e6)


def sustain_callbacks(place: Place) -> Sustained:
    """Keeps a steady rate of callback calls up with Redis, and compares memory once results have begun to be forgotten.

    Until then memory grows as it must, because what is remembered does.
    """
    life_s, (first_s, then_s) = place.effort.result_ttl_s, place.effort.steady_s
    place.say(f"{STEADY_RATE:,.0f} callback calls a second for {first_s + then_s:g} s")
    subject = _crowded("callback", redis=True, result_ttl=f"{life_s}s", seen_ttl=f"{life_s}s")
    with place.run(subject) as (_, running), place.swarm(running, Load("", STEADY_CONNECTIONS)) as swarm:
        swarm.run_paced(first_s, STEADY_RATE)
        before = rss_bytes(running.pid)
        timings = swarm.run_paced(then_s, STEADY_RATE)
        after = rss_bytes(running.pid)
    return Sustained(timings.calls, timings.wall_s, life_s, before, after)
