"""What is measured, and the medians and ratios made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tests.bench.machine import QUIET_CORES
from tests.bench.swarm import Timings, percentile_ms

ECHO, NGINX_PROXY, TOOLGATE = "uvicorn echo", "nginx proxy", "Toolgate"
TOOLGATE_MANY = "Toolgate, many tools"  # of which callers use as many as of the small catalogue
TOOLGATE_EVERY = "Toolgate, all called"  # the same catalogue, every tool called in turn
KEYED = "Toolgate, keyed"  # every call has an id of its caller's, and so a record
REDIS, REDIS_KEYED = "Redis", "Redis, keyed"  # Toolgate with its state there
CALLBACK, CALLBACK_PACED = "callback", "callback, paced"  # Toolgate before a tool server that calls back
CALLBACK_REDIS, CALLBACK_REDIS_PACED = "callback, Redis", "callback, Redis, paced"
MAIN_SUBJECT = "toolgate"  # whose idle memory counts
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
    """One load in one round: medians of its slices, percentiles of all its calls.

    `handover_p99_ms`: from a callback to the answer of its call; None for tools that answer at once.
    """

    cpu_us: float  # per call
    calls_per_s: float
    p50_ms: float
    p99_ms: float
    handover_p99_ms: float | None
    busy: float  # how much of its core the subject used; far below 1 the callers were the limit
    slices: int
    noisy_slices: int

    @classmethod
    def of(cls, slices: list[Slice]) -> Sample:
        every_call = Timings.joined([taken.timings for taken in slices])
        handovers = every_call.handovers_ns
        return cls(
            cpu_us=median(taken.used_s / taken.timings.calls * 1e6 for taken in slices),
            calls_per_s=median(taken.timings.calls / taken.timings.wall_s for taken in slices),
            p50_ms=percentile_ms(every_call.latencies_ns, 50),
            p99_ms=percentile_ms(every_call.latencies_ns, 99),
            handover_p99_ms=percentile_ms(handovers, 99) if handovers else None,
            busy=median(taken.used_s / taken.timings.wall_s for taken in slices),
            slices=len(slices),
            noisy_slices=sum(taken.noisy for taken in slices),
        )


Key = tuple[str, int]  # a row of the table: its name and the number of connections


@dataclass(frozen=True, slots=True)
class Round:
    """Every load measured once, and the memory of each subject (by its name) before its first call."""

    idle_bytes: dict[str, int]
    samples: dict[Key, Sample]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The memory that `calls` waiting calls took, each with its caller's connection."""

    calls: int
    bytes_per_call: float


@dataclass(frozen=True, slots=True)
class Stream:
    """So many calls at once whose answers all came over one event stream; medians of a few times."""

    calls: int
    wall_s: float
    cpu_us: float  # per call


@dataclass(frozen=True, slots=True)
class Sustained:
    """A steady rate of calls for longer than a result is kept, and the memory before and after."""

    calls: int
    wall_s: float
    result_ttl_s: int
    before_bytes: int
    after_bytes: int

    @property
    def growth_percent(self) -> float:
        return (self.after_bytes / self.before_bytes - 1) * 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one run measured; parts of it, if it was asked for parts."""

    rounds: list[Round]
    waiting: Waiting | None = None
    waiting_callbacks: Waiting | None = None
    stream: Stream | None = None
    sustained: Sustained | None = None


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


def rows(outcome: Outcome) -> list[Row]:
    """The table, in the order of the first round."""
    return [_row(outcome, key) for key in (outcome.rounds[0].samples if outcome.rounds else ())]


def _row(outcome: Outcome, key: Key) -> Row:
    samples = [round_.samples[key] for round_ in outcome.rounds]
    name, connections = key

    def middle(read: Callable[[Sample], float]) -> float:
        return median(map(read, samples))

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
        of_echo=ratio(outcome, key, (ECHO, connections)),
        of_nginx=ratio(outcome, key, (NGINX_PROXY, connections)),
        slices=sum(sample.slices for sample in samples),
        noisy_slices=sum(sample.noisy_slices for sample in samples),
    )


def cpu_us(sample: Sample) -> float:
    """CPU time of a call: what ratios are made of."""
    return sample.cpu_us


def ratio(outcome: Outcome, upper: Key, lower: Key, read: Callable[[Sample], float] = cpu_us) -> float | None:
    """The median of the ratios within each round, so that what slows a whole round cancels out; None: not measured."""
    over = median_of(outcome, upper, read)
    if over is None or median_of(outcome, lower, read) is None:
        return None
    return median(read(round_.samples[upper]) / read(round_.samples[lower]) for round_ in outcome.rounds)


def median_of(outcome: Outcome, key: Key, read: Callable[[Sample], float | None]) -> float | None:
    """The median over the rounds; None if it was not measured."""
    samples = [round_.samples[key] for round_ in outcome.rounds if key in round_.samples]
    found = [figure for figure in map(read, samples) if figure is not None]
    return median(found) if found else None
