"""All that can be measured, by the names that `--only` takes, and the run that measures it.

After the rounds comes what no slice can show: the weight of calls that wait, one stream for a crowd, and memory under a
steady rate.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from statistics import median

from tests.bench import documents
from tests.bench.credentials import verification_us
from tests.bench.figures import Outcome, Stream, Sustained, Waiting
from tests.bench.lineup import PEERS, lineup
from tests.bench.machine import BenchError, CpuClock, pinned, raise_open_files, rss_bytes
from tests.bench.rcrtserver import RcrtServer
from tests.bench.rounds import Effort, Place, Rounds, waiting_calls
from tests.bench.subjects import Load, Running, Subject, toolgate

FULL = Effort(
    rounds=3,
    slices=5,
    slice_s=0.4,
    warm_up_s=0.12,
    crowd=1000,
    waiting_calls=2000,
    stream_calls=1000,
    stream_times=5,
    many_tools=10_000,
    steady_s=(33.0, 15.0),
    result_ttl_s=30,
    patience_s=90.0,
)
QUICK = Effort(
    rounds=1,
    slices=1,
    slice_s=0.05,
    warm_up_s=0.02,
    crowd=20,
    waiting_calls=50,
    stream_calls=50,
    stream_times=1,
    many_tools=200,
    steady_s=(0.2, 0.2),
    result_ttl_s=1,
    patience_s=0.0,
)

WAITING, WAITING_CALLBACKS, STREAM, STEADY = "waiting", "waiting-callbacks", "stream", "steady"
DOCUMENT = "document"
APART = (WAITING, WAITING_CALLBACKS, STREAM, STEADY, DOCUMENT)  # what is measured after the rounds
SPARE_FILES = 500  # open files a process needs besides the connections of the calls
FILES_PER_WAITING_CALL = 2  # callers and tool server are one process, and so have both ends
SETTLING_CONNECTIONS = 8
STEADY_RATE = 1000.0  # calls a second
STEADY_CONNECTIONS = 64
VERIFIED = "forged"  # whose cost is compared with that of a verification


def names() -> list[str]:
    """What `--only` may name."""
    return [*(subject.name for subject in lineup(QUICK.many_tools, QUICK.crowd)), *APART]


def run(place: Place, only: Collection[str]) -> Outcome:
    """Measures everything but peers, or what is named. Raises BenchError."""
    if unknown := sorted(set(only) - set(names())):
        raise BenchError(f"There is no {', '.join(unknown)} to measure, but {', '.join(names())}.")
    effort = place.effort
    asked = set(only) or set(names()) - PEERS
    wanted = [subject for subject in lineup(effort.many_tools, effort.crowd) if subject.name in asked]
    missing = {subject.name: reason for subject in wanted if (reason := subject.missing()) is not None}
    if DOCUMENT in asked and (reason := documents.missing()) is not None:
        missing[DOCUMENT] = reason
    with pinned(place.cores.others):
        return Outcome(
            rounds=Rounds(place, [subject for subject in wanted if subject.name not in missing]).measure(),
            waiting=weigh_waiting_calls(place, "oxp") if WAITING in asked else None,
            waiting_callbacks=weigh_waiting_calls(place, "callback") if WAITING_CALLBACKS in asked else None,
            stream=crowd_on_one_stream(place) if STREAM in asked else None,
            sustained=sustain_callbacks(place) if STEADY in asked else None,
            document=documents.weigh_document(place) if DOCUMENT in asked - missing.keys() else None,
            verification_us=verification_us() if VERIFIED in asked else None,
            left_out=tuple(missing.values()),
        )


def weigh_waiting_calls(place: Place, protocol: str) -> Waiting:
    """Compares the gateway's memory with and without thousands of calls that wait for the tool server."""
    fits = (raise_open_files() - SPARE_FILES) // FILES_PER_WAITING_CALL
    count = min(place.effort.waiting_calls, fits)
    place.say(f"memory of {count:,} waiting calls, {protocol}")
    with place.run(_crowded(protocol)) as (bed, running):
        _warm_up(place, running)  # what the first calls allocate once is not the weight of one
        before = _rss(running)
        with waiting_calls(bed, running, count) as swarm:
            taken = _rss(running) - before
            bed.server.release()
            swarm.finish()
    return Waiting(count, taken / count / 1024)


def _crowded(protocol: str, *, redis: bool = False, **state: object) -> Subject:
    return Subject(protocol, toolgate, protocol=protocol, redis=redis, config={"state": state})


def _rss(running: Running) -> int:
    assert running.pid is not None
    return rss_bytes(running.pid)


def _warm_up(place: Place, running: Running) -> None:
    with place.swarm(running, Load("", SETTLING_CONNECTIONS)) as swarm:
        swarm.warm_up(place.effort.warm_up_s)
        swarm.finish()


def crowd_on_one_stream(place: Place) -> Stream:
    """Has a crowd call breadcrumb tools all at once, a few times, and answers when all of them have asked."""
    count, times = place.effort.stream_calls, place.effort.stream_times
    raise_open_files()
    place.say(f"{count:,} calls at once on one event stream")
    walls_s, used_s = [], []
    with place.run(_crowded("rcrt")) as (bed, running):
        _warm_up(place, running)
        assert running.pid is not None
        clock = CpuClock(running.pid)
        for _ in range(times):
            begin, before_s = time.perf_counter(), clock.now_s()
            with waiting_calls(bed, running, count) as swarm:
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
        before = _rss(running)
        timings = swarm.run_paced(then_s, STEADY_RATE)
        after = _rss(running)
    return Sustained(timings.calls, timings.wall_s, life_s, before, after)
