"""The run itself: interleaved rounds over all subjects, then the weight of waiting calls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import figures
from tests.bench.children import ask, tool_server
from tests.bench.figures import LOAD, Outcome, Round, Sample, Slice, Visit, Waiting
from tests.bench.machine import BenchError, Cores, Patience, Strangers, cpu_s, pinned, raise_open_files, rss_bytes
from tests.bench.subjects import NGINX, Bed, Running, Subject, echo, nginx, toolgate
from tests.bench.swarm import Swarm

FEW_TOOLS = 10
CALLED_TOOLS = FEW_TOOLS - 1  # all but the one that waits; as many in a large catalogue, so that only its size differs
SPARE_FILES = 500  # open files a process needs besides the connections of the calls
FILES_PER_WAITING_CALL = 2  # the gateway has both its connections
ARRIVAL_TIMEOUT_S = 30.0  # for thousands of calls to reach the tool server; they take about a second
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
    many_tools: int
    patience_s: float


FULL = Effort(rounds=3, slices=6, slice_s=0.5, warm_up_s=0.15, waiting_calls=2000, many_tools=10_000, patience_s=60.0)
QUICK = Effort(rounds=1, slices=1, slice_s=0.1, warm_up_s=0.02, waiting_calls=100, many_tools=200, patience_s=0.0)


@dataclass(frozen=True, slots=True)
class Load:
    """One subject at one number of connections."""

    subject: str
    running: Running
    connections: int


class Bench:
    """One run. `say` gets a line about each step."""

    def __init__(self, effort: Effort, cores: Cores, say: Callable[[str], None]) -> None:
        self._effort = effort
        self._cores = cores
        self._say = say
        self._patience = Patience(effort.patience_s)

    def run(self) -> Outcome:
        """Measures everything."""
        with pinned(self._cores.others):
            rounds = [self._round(number) for number in range(1, self._effort.rounds + 1)]
            return Outcome(rounds, self._weigh_waiting_calls())

    def _round(self, number: int) -> Round:
        """Starts every subject afresh and measures all loads by turns, each time in the opposite order."""
        slices: dict[tuple[str, int], list[Slice]] = {}
        idle_bytes: dict[str, int] = {}
        with ExitStack() as stack:
            loads = []
            for subject in self._subjects():
                bed = stack.enter_context(self._bed(subject.tools, subject.called))
                running = stack.enter_context(subject.start(bed))
                idle_bytes[subject.name] = rss_bytes(running.pid)
                loads += [Load(subject.name, running, connections) for connections in subject.connections]
            for turn in range(self._effort.slices):
                self._say(f"round {number} of {self._effort.rounds}, slice {turn + 1} of {self._effort.slices}")
                for load in loads if turn % 2 == 0 else reversed(loads):
                    slices.setdefault((load.subject, load.connections), []).append(self._undisturbed(load))
        return {
            name: Visit(size, {count: Sample.of(taken) for (whose, count), taken in slices.items() if whose == name})
            for name, size in idle_bytes.items()
        }

    def _subjects(self) -> list[Subject]:
        """All that can be measured on this machine. One connection shows latency without queueing."""
        many = self._effort.many_tools
        found = [Subject(figures.ECHO, echo, FEW_TOOLS, CALLED_TOOLS, (1, LOAD))]
        if NGINX:
            found.append(Subject(figures.NGINX_PROXY, nginx, FEW_TOOLS, CALLED_TOOLS, (1, LOAD)))
        return [
            *found,
            Subject(figures.TOOLGATE, toolgate, FEW_TOOLS, CALLED_TOOLS, (1, 8, LOAD, 256)),
            Subject(figures.TOOLGATE_MANY, toolgate, many, CALLED_TOOLS, (LOAD,)),
            Subject(figures.TOOLGATE_EVERY, toolgate, many, many - 1, (LOAD,)),
        ]

    @contextmanager
    def _bed(self, tools: int, called: int) -> Iterator[Bed]:
        with TemporaryDirectory(prefix="bench-") as name, tool_server(tools, self._cores.others, Path(name)) as port:
            yield Bed(self._cores.subject, Path(name), port, tools, called)

    def _undisturbed(self, load: Load) -> Slice:
        """Measures one slice; again while others disturb it and patience lasts."""
        for _ in range(TRIES):
            taken = self._slice(load)
            if not taken.noisy or not self._patience.lasts_until_quiet(self._effort.slice_s):
                break
        return taken

    def _slice(self, load: Load) -> Slice:
        running = load.running
        with Swarm(running.port, running.script.ordinary, running.proof, load.connections) as swarm:
            swarm.warm_up(self._effort.warm_up_s)
            strangers, before_s = Strangers(), cpu_s(running.pid)
            timings = swarm.run(self._effort.slice_s)
            used_s = cpu_s(running.pid) - before_s
            foreign_cores = strangers.cores()
            swarm.finish()
        return Slice(timings, used_s, foreign_cores)

    def _weigh_waiting_calls(self) -> Waiting:
        """Compares the gateway's memory with and without thousands of calls that wait for the tool server."""
        fits = (raise_open_files() - SPARE_FILES) // FILES_PER_WAITING_CALL
        count = min(self._effort.waiting_calls, fits)
        self._say(f"memory of {count:,} waiting calls")
        with self._bed(FEW_TOOLS, CALLED_TOOLS) as bed, toolgate(bed) as running:
            with Swarm(running.port, running.script.ordinary, running.proof, 8) as swarm:
                swarm.warm_up(self._effort.warm_up_s)  # what the first calls allocate once is not the weight of one
                swarm.finish()
            before = rss_bytes(running.pid)
            with Swarm(running.port, [running.script.waiting], running.proof, count) as swarm:
                await_arrival(bed.tools_port, count)
                taken = rss_bytes(running.pid) - before
                ask(bed.tools_port, "POST", "/release")
                swarm.finish()
        return Waiting(count, taken / count)


def await_arrival(tools_port: int, count: int) -> None:
    """Returns when `count` calls wait at the tool server."""
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while (held := json.loads(ask(tools_port, "GET", "/held")[1])["held"]) < count:
        if time.monotonic() > deadline:
            raise BenchError(f"Only {held} of {count} waiting calls reached the tool server.")
        time.sleep(0.05)
