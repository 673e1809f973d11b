"""Interleaved rounds: all loads by turns in short slices, every subject started afresh in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Key, Round, Sample, Slice
from tests.bench.machine import Cores, CpuClock, Patience, Strangers, rss_bytes
from tests.bench.poller import Poller
from tests.bench.subjects import TOOL_SERVERS, Bed, Load, Running, Subject
from tests.bench.swarm import Swarm

TRIES = 3  # of one slice while others disturb it


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured, and how long a noisy machine may delay it. Times in seconds.

    Each round measures every load in `slices` short stretches, taking turns with all other loads: a disturbance
    of a second or two, which is what shared machines have, then hits one slice of many and not one subject.
    """

    rounds: int
    slices: int
    slice_s: float
    warm_up_s: float
    waiting_calls: int
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

    @contextmanager
    def run(self, subject: Subject) -> Iterator[tuple[Bed, Running]]:
        """Starts a subject and the tool server behind it."""
        server = TOOL_SERVERS[subject.protocol](self.poller, subject.tools)
        try:
            with TemporaryDirectory(prefix="bench-") as folder:
                bed = Bed(self.cores, Path(folder), self.poller, server, subject.tools, subject.called)
                with subject.start(subject, bed) as running:
                    yield bed, running
        finally:
            server.close()

    def swarm(self, running: Running, load: Load) -> Swarm:
        """Its callers."""
        requests = running.script.requests(keyed=load.keyed)
        return Swarm(self.poller, running.port, requests, running.proof, load.connections)


class Rounds:
    """Measures subjects side by side."""

    def __init__(self, place: Place, subjects: list[Subject]) -> None:
        self._place = place
        self._subjects = subjects
        self._patience = Patience(place.effort.patience_s)

    def measure(self) -> list[Round]:
        """All rounds; none if there is nothing to measure."""
        return [self._round(number) for number in range(1, self._place.effort.rounds + 1)] if self._subjects else []

    def _round(self, number: int) -> Round:
        """Starts every subject and measures all loads by turns, each time in the opposite order."""
        effort, idle_bytes = self._place.effort, {}
        slices: dict[Key, list[Slice]] = {}
        with ExitStack() as stack:
            loads: list[tuple[Running, Load]] = []
            for subject in self._subjects:
                _, running = stack.enter_context(self._place.run(subject))
                idle_bytes[subject.name] = rss_bytes(running.pid)
                loads += [(running, load) for load in subject.loads]
            for turn in range(effort.slices):
                self._place.say(f"round {number} of {effort.rounds}, slice {turn + 1} of {effort.slices}")
                for running, load in loads if turn % 2 == 0 else reversed(loads):
                    slices.setdefault((load.row, load.connections), []).append(self._undisturbed(running, load))
        in_order = [(load.row, load.connections) for _, load in loads]
        return Round(idle_bytes, {key: Sample.of(slices[key]) for key in in_order})

    def _undisturbed(self, running: Running, load: Load) -> Slice:
        """Measures one slice; again while others disturb it and patience lasts."""
        for _ in range(TRIES):
            taken = self._slice(running, load)
            if not taken.noisy or not self._patience.lasts_until_quiet(self._place.effort.slice_s):
                break
        return taken

    def _slice(self, running: Running, load: Load) -> Slice:
        effort, clock = self._place.effort, CpuClock(running.pid)
        with self._place.swarm(running, load) as swarm:
            swarm.warm_up(effort.warm_up_s)
            if load.rate is not None:
                swarm.finish()
            strangers, before_s = Strangers(), clock.now_s()
            timings = swarm.run(effort.slice_s) if load.rate is None else swarm.run_paced(effort.slice_s, load.rate)
            used_s = clock.now_s() - before_s
            foreign_cores = strangers.cores()
            swarm.finish()
        return Slice(timings, used_s, foreign_cores)
