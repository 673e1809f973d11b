"""Interleaved rounds: all loads by turns in short slices, every subject started afresh in each round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Key, Round, Sample, Slice
from tests.bench.machine import QUIET_CORES, BenchError, Cores, CpuClock, OtherLoad, raise_open_files, rss_bytes
from tests.bench.poller import Poller
from tests.bench.subjects import TOOL_SERVERS, Bed, Load, Running, Subject
from tests.bench.swarm import Swarm

ARRIVAL_TIMEOUT_S = 30.0  # for thousands of calls to reach the tool server; they take about a second
GROUP = 50  # callers that come at once
TRIES = 3  # of one slice while others disturb it
GLANCE_S = 0.3  # long enough that the clock ticks of /proc/stat (10 ms) say something


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured, and how long a noisy machine may delay it (`patience_s`). Times in seconds.

    The loads take turns in short slices: a disturbance of a second or two hits one slice of many, not one subject.
    """

    rounds: int
    slices: int
    slice_s: float
    warm_up_s: float
    crowd: int  # calls that wait behind a row
    waiting_calls: int  # and so many when they are weighed
    stream_calls: int
    stream_times: int
    many_tools: int
    steady_s: tuple[float, float]  # of a steady rate of calls, before memory is weighed and until it is again
    result_ttl_s: int  # of their results
    patience_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """What all measurements of a run share. `say` gets a line about each step."""

    effort: Effort
    cores: Cores
    poller: Poller
    say: Callable[[str], None]
    prefix: tuple[str, ...] = ()  # runs the commands of subjects

    @contextmanager
    def run(self, subject: Subject) -> Iterator[tuple[Bed, Running]]:
        """Starts a subject, the tool server behind it, and the calls that wait there all the time."""
        server = TOOL_SERVERS[subject.protocol](self.poller, subject.tools)
        try:
            with TemporaryDirectory(prefix="bench-") as folder:
                bed = Bed(self.cores, Path(folder), self.poller, server, self.prefix)
                with subject.start(subject, bed) as running, _crowded(subject, bed, running):
                    yield bed, running
        finally:
            server.close()

    def swarm(self, running: Running, load: Load) -> Swarm:
        """Its callers."""
        requests = running.script.requests(load.size, keyed=load.keyed)
        return Swarm(self.poller, running.port, requests, running.answer, load.connections)


@contextmanager
def _crowded(subject: Subject, bed: Bed, running: Running) -> Iterator[None]:
    if not subject.waiting:
        yield
        return
    with waiting_calls(bed, running, subject.waiting) as swarm:
        yield
        bed.server.release()
        swarm.finish()


@contextmanager
def waiting_calls(bed: Bed, running: Running, count: int) -> Iterator[Swarm]:
    """Callers whose calls all wait at the tool server. They come in groups: what a rush takes is not their weight."""
    with Swarm(bed.poller, running.port, cycle(running.script.waiting()), running.answer, 0) as swarm:
        while len(swarm) < count:
            swarm.grow(min(GROUP, count - len(swarm)))
            deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
            while bed.server.held < len(swarm):
                if time.monotonic() > deadline:
                    raise BenchError(f"Only {bed.server.held} of {len(swarm)} waiting calls reached the tool server.")
                bed.poller.turn()
        yield swarm


def _weigh(started: Mapping[str, Running]) -> dict[str, int]:
    """Memory of each subject that is a process of its own."""
    return {name: rss_bytes(running.pid) for name, running in started.items() if running.pid is not None}


class Rounds:
    """Measures subjects side by side."""

    def __init__(self, place: Place, subjects: list[Subject]) -> None:
        self._place = place
        self._subjects = subjects
        self._patience_s = place.effort.patience_s

    def measure(self) -> list[Round]:
        """All rounds; none if there is nothing to measure."""
        raise_open_files()  # hundreds of connections, and as many behind them
        return [self._round(number) for number in range(1, self._place.effort.rounds + 1)] if self._subjects else []

    def _round(self, number: int) -> Round:
        """Starts every subject and measures all loads by turns, each time in the opposite order."""
        effort = self._place.effort
        slices: dict[Key, list[Slice]] = {}
        with ExitStack() as stack:
            started = {subject.name: stack.enter_context(self._place.run(subject))[1] for subject in self._subjects}
            loads = [(started[subject.name], load) for subject in self._subjects for load in subject.loads]
            idle_bytes = _weigh(started)
            for turn in range(effort.slices):
                self._place.say(f"round {number} of {effort.rounds}, slice {turn + 1} of {effort.slices}")
                for running, load in loads if turn % 2 == 0 else reversed(loads):
                    slices.setdefault((load.row, load.connections), []).append(self._undisturbed(running, load))
            loaded_bytes = _weigh(started)
        in_order = [(load.row, load.connections) for _, load in loads]
        return Round(idle_bytes, loaded_bytes, {key: Sample.of(slices[key]) for key in in_order})

    def _undisturbed(self, running: Running, load: Load) -> Slice:
        """Measures one slice; again while others disturb it and patience lasts. Raises BenchError that says where."""
        for _ in range(TRIES):
            try:
                taken = self._slice(running, load)
            except BenchError as error:
                raise BenchError(f"{load.row}, {load.connections} connections: {error}") from error
            spoiled = taken.noisy if load.rate is None else taken.interrupted
            if not spoiled or not self._becomes_quiet():
                break
        return taken

    def _becomes_quiet(self) -> bool:
        """Waits for the others to be quiet, with enough time left for a repetition; False when there is none."""
        self._patience_s -= self._place.effort.slice_s
        while self._patience_s >= GLANCE_S:
            self._patience_s -= GLANCE_S
            others = OtherLoad()
            self._place.poller.serve_for(GLANCE_S)
            if others.taken()[0] <= QUIET_CORES:
                return True
        return False

    def _slice(self, running: Running, load: Load) -> Slice:
        effort = self._place.effort
        clock = None if running.pid is None else CpuClock(running.pid)
        with self._place.swarm(running, load) as swarm:
            swarm.warm_up(effort.warm_up_s)
            if load.rate is not None:
                swarm.finish()
            others, before_s = OtherLoad(), clock.now_s() if clock else 0.0
            timings = swarm.run(effort.slice_s) if load.rate is None else swarm.run_paced(effort.slice_s, load.rate)
            used_s = clock.now_s() - before_s if clock else 0.0
            foreign_cores, stolen_s = others.taken()
            swarm.finish()
        return Slice(timings, used_s, foreign_cores, stolen_s)
