"""What is measured, and the medians and ratios made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tests.bench.machine import QUIET_CORES
from tests.bench.swarm import Timings

ECHO, NGINX_PROXY, TOOLGATE = "uvicorn echo", "nginx proxy", "Toolgate"
TOOLGATE_MANY = "Toolgate, many tools"  # of which callers use as many as of the small catalogue
TOOLGATE_EVERY = "Toolgate, all called"  # the same catalogue, every tool called in turn
LOAD = 64  # connections of the main figures


@dataclass(frozen=True, slots=True)
class Slice:
    """One short stretch of load on one subject."""

    timings: Timings
    used_s: float  # CPU time of the subject's whole process tree
    foreign_cores: float  # what other processes used meanwhile

    @property
    def noisy(self) -> bool:
        return self.foreign_cores > QUIET_CORES


@dataclass(frozen=True, slots=True)
class Sample:
    """One subject at one number of connections in one round: medians of its slices, percentiles of all its calls."""

    cpu_us: float  # per call
    calls_per_s: float
    p50_ms: float
    p99_ms: float
    busy: float  # how much of its core the subject used; far below 1 the callers were the limit
    slices: int
    noisy_slices: int

    @classmethod
    def of(cls, slices: list[Slice]) -> Sample:
        every_call = Timings.joined([taken.timings for taken in slices])
        return cls(
            cpu_us=median(taken.used_s / taken.timings.calls * 1e6 for taken in slices),
            calls_per_s=median(taken.timings.calls / taken.timings.wall_s for taken in slices),
            p50_ms=every_call.percentile_ms(50),
            p99_ms=every_call.percentile_ms(99),
            busy=median(taken.used_s / taken.timings.wall_s for taken in slices),
            slices=len(slices),
            noisy_slices=sum(taken.noisy for taken in slices),
        )


@dataclass(frozen=True, slots=True)
class Visit:
    """One subject in one round: its memory before the first call, its samples by number of connections."""

    idle_bytes: int
    samples: dict[int, Sample]


Round = dict[str, Visit]  # by the subject's name


@dataclass(frozen=True, slots=True)
class Waiting:
    """The memory that `calls` waiting calls took, each with its caller's and its tool server's connection."""

    calls: int
    bytes_per_call: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one run measured."""

    rounds: list[Round]
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: medians over the rounds, and how far apart the rounds were in CPU time."""

    subject: str
    connections: int
    cpu_us: float
    cpu_us_min: float
    cpu_us_max: float
    calls_per_s: float
    p50_ms: float
    p99_ms: float
    busy: float
    of_echo: float | None
    of_nginx: float | None
    slices: int
    noisy_slices: int


@dataclass(frozen=True, slots=True)
class Line:
    """One figure to hold up: what it is, what was measured, and the most that is owed, if it is owed."""

    what: str
    measured: float
    unit: str
    owed: float | None = None

    @property
    def ok(self) -> bool:
        return self.owed is None or self.measured <= self.owed


def rows(outcome: Outcome) -> list[Row]:
    """The table, in the order of the first round."""
    first = outcome.rounds[0]
    return [_row(outcome, name, count) for name in first for count in sorted(first[name].samples)]


def lines(outcome: Outcome) -> list[Line]:
    """What is owed first, then what else is worth comparing."""

    def of(upper: tuple[str, int], lower: tuple[str, int]) -> float:
        return _ratio(outcome, upper, lower, lambda sample: sample.cpu_us)

    main, idle = (TOOLGATE, LOAD), median(visits[TOOLGATE].idle_bytes for visits in outcome.rounds)
    found = [
        Line("CPU of a call / uvicorn echo", of(main, (ECHO, LOAD)), "x", 3.0),
        Line("CPU of a call, 256 connections / 8", of((TOOLGATE, 256), (TOOLGATE, 8)), "x", 1.4),
        # Owed is "the same"; rounds of a quiet machine differ by a few per cent.
        Line("CPU of a call, many tools / 10", of((TOOLGATE_MANY, LOAD), main), "x", 1.1),
        Line("idle memory", idle / 1e6, "MB", 80.0),
        Line("memory of a waiting call", outcome.waiting.bytes_per_call / 1024, "KB", 32.0),
        # The catalogue no longer fits the processor's caches when every tool of it is used.
        Line("CPU of a call, all of many called / 10", of((TOOLGATE_EVERY, LOAD), main), "x"),
        Line("p99 / p50 at 64 connections", _latency_spread(outcome), "x"),
    ]
    if NGINX_PROXY in outcome.rounds[0]:
        unloaded = _ratio(outcome, (TOOLGATE, 1), (NGINX_PROXY, 1), lambda sample: sample.p50_ms)
        found += [
            Line("CPU of a call / nginx proxy", of(main, (NGINX_PROXY, LOAD)), "x"),
            Line("p50 of a lone caller / nginx proxy", unloaded, "x"),
        ]
    return found


def _row(outcome: Outcome, name: str, connections: int) -> Row:
    samples = [visits[name].samples[connections] for visits in outcome.rounds]

    def middle(read: Callable[[Sample], float]) -> float:
        return median(map(read, samples))

    def over(other: str) -> float | None:
        if other not in outcome.rounds[0] or connections not in outcome.rounds[0][other].samples:
            return None
        return _ratio(outcome, (name, connections), (other, connections), lambda sample: sample.cpu_us)

    used = [sample.cpu_us for sample in samples]
    return Row(
        subject=name,
        connections=connections,
        cpu_us=median(used),
        cpu_us_min=min(used),
        cpu_us_max=max(used),
        calls_per_s=middle(lambda sample: sample.calls_per_s),
        p50_ms=middle(lambda sample: sample.p50_ms),
        p99_ms=middle(lambda sample: sample.p99_ms),
        busy=middle(lambda sample: sample.busy),
        of_echo=over(ECHO),
        of_nginx=over(NGINX_PROXY),
        slices=sum(sample.slices for sample in samples),
        noisy_slices=sum(sample.noisy_slices for sample in samples),
    )


def _ratio(outcome: Outcome, upper: tuple[str, int], lower: tuple[str, int], read: Callable[[Sample], float]) -> float:
    """The median of the ratios within each round: what slows a whole round cancels out."""

    def figure(visits: Round, of: tuple[str, int]) -> float:
        name, connections = of
        return read(visits[name].samples[connections])

    return median(figure(visits, upper) / figure(visits, lower) for visits in outcome.rounds)


def _latency_spread(outcome: Outcome) -> float:
    samples = [visits[TOOLGATE].samples[LOAD] for visits in outcome.rounds]
    return median(sample.p99_ms / sample.p50_ms for sample in samples)
