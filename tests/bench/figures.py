"""What is measured, and the medians and ratios made of it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tests.bench.machine import QUIET_CORES
from tests.bench.swarm import Timings, percentile_ms

ALONE, FEW, LOAD, CROWD = 1, 16, 64, 512  # connections; those of the main figures are LOAD
PACES = (1500.0, 5000.0)  # calls a second: a busy day, and most of what one core can do
MAIN_SUBJECT = "toolgate"  # whose idle memory counts

ECHO, NGINX_PROXY = "uvicorn echo", "nginx proxy"
ECHO_GRANIAN, ECHO_OWN = "granian echo", "own server's echo"
MINIMAL, MINIMAL_LIMITED = "minimal gateway", "minimal gateway, 429"  # of Toolgate's parts, with nothing to choose
DIRECT = "tool server, direct"  # no subject between, and so no CPU time

TOOLGATE, TOOLGATE_100K = "Toolgate", "Toolgate, 100 KB"
TOOLGATE_NOTES = "Toolgate, 100 KB of notes"  # many small values instead of one long text
TOOLGATE_MANY = "Toolgate, many tools"  # of which callers use as many as of the small catalogue
TOOLGATE_ROUTES, TOOLGATE_BACKENDS = "Toolgate, many routes", "Toolgate, many backends"
TOOLGATE_CROWD = "Toolgate, many waiting"  # further calls wait meanwhile
KEYED = "Toolgate, keyed"  # every call has an id of its caller's, and so a record

BARE = "Toolgate, bare"  # HS256, no limit, no access line
GUARDED = "Toolgate, guarded"  # RS256, a limit, an access line
REFERENCE = "reference"  # the same, and every call has an id
GUARDED_REDIS, REFERENCE_REDIS = "guarded, Redis", "reference, Redis"
LIMITED, UNKNOWN, FORGED = "429, limit reached", "401, no token", "401, bad signature"

REDIS, REDIS_KEYED = "Redis", "Redis, keyed"  # Toolgate with its state there
CLUSTER_KEYED = "Redis Cluster, keyed"
WORKERS = "Redis, two workers"
FROM_MCP, MCP_TO_MCP = "MCP to OXP", "MCP to MCP"  # bare, too
TO_OPENAPI, TO_OPENAPI_GET = "OTC to OpenAPI", "OTC to OpenAPI, GET"  # bare; arguments in a body, or in path and query
MCP_TO_OPENAPI = "MCP to OpenAPI, guarded"  # as the peers that make tools of an API
TO_RCRT = "OTC to RCRT"
CALLBACK, CALLBACK_PACED = "callback", "callback, paced"  # Toolgate before a tool server that calls back
CALLBACK_REDIS, CALLBACK_REDIS_PACED = "callback, Redis", "callback, Redis, paced"

# Of a variation there is no echo to compare with.
VARIATIONS = (", 100 KB", ", paced", "/s")
MIDDLE = ("cpu_us", "calls_per_s", "p50_ms", "p99_ms", "busy")  # figures of a row that are medians
ENVOY, ENVOY_BRIDGE, FASTMCP = "Envoy, JWT", "Envoy, JWT, MCP bridge", "FastMCP, OpenAPI"
FASTMCP_PROXY = "FastMCP, MCP proxy"


def paced(row: str, rate: float) -> str:
    """The name of a row whose calls come at a rate, whatever becomes of them."""
    return f"{row}, {rate:,.0f}/s"


@dataclass(frozen=True, slots=True)
class Slice:
    """One short stretch of load on one subject."""

    timings: Timings
    used_s: float  # CPU time of the subject's whole process tree; 0 if nothing runs but callers and tool server
    foreign_cores: float  # what other processes used meanwhile
    stolen_s: float = 0.0  # for how long the host had a core do something else

    @property
    def noisy(self) -> bool:
        return self.foreign_cores > QUIET_CORES

    @property
    def interrupted(self) -> bool:
        """Whether calls had to wait for a processor: a moment without one makes the whole tail of a short slice."""
        return self.noisy or self.stolen_s > 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One load in one round: medians of its slices, percentiles of all calls that nothing from outside interrupted.

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
    calm_slices: int  # those whose latencies count; with none of them, all do

    @property
    def tail(self) -> float:
        return self.p99_ms / self.p50_ms

    @classmethod
    def of(cls, slices: list[Slice]) -> Sample:
        calm = [taken for taken in slices if not taken.interrupted]
        every_call = Timings.joined([taken.timings for taken in calm or slices])
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
            calm_slices=len(calm),
        )


Key = tuple[str, int]  # a row of the table: its name and the number of connections


@dataclass(frozen=True, slots=True)
class Round:
    """Every load measured once, and the memory of each subject before its first and after its last call."""

    idle_bytes: dict[str, int]
    loaded_bytes: dict[str, int]
    samples: dict[Key, Sample]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The memory that `calls` waiting calls took, each with its caller's connection."""

    calls: int
    kb_per_call: float


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
    def calls_per_s(self) -> float:
        return self.calls / self.wall_s

    @property
    def growth_percent(self) -> float:
        return (self.after_bytes / self.before_bytes - 1) * 100


@dataclass(frozen=True, slots=True)
class LargeDocument:
    """What an OpenAPI document of many operations takes: CPU time to load, memory, CPU time of one look at it again."""

    load_s: float
    memory_mb: float
    look_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one run measured; parts of it, if it was asked for parts."""

    rounds: list[Round]
    waiting: Waiting | None = None
    waiting_callbacks: Waiting | None = None
    stream: Stream | None = None
    sustained: Sustained | None = None
    document: LargeDocument | None = None
    verification_us: float | None = None
    left_out: tuple[str, ...] = ()  # what could not be measured, and why


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
    slices: int
    noisy_slices: int


@dataclass(frozen=True, slots=True)
class Weight:
    """The memory of one subject, before its first call and after its last: medians over the rounds."""

    subject: str
    idle_mb: float
    loaded_mb: float


def weights(outcome: Outcome) -> list[Weight]:
    """Of every subject that is a process of its own."""
    rounds = outcome.rounds
    return [
        Weight(
            name,
            median(round_.idle_bytes[name] for round_ in rounds) / 1e6,
            median(round_.loaded_bytes[name] for round_ in rounds) / 1e6,
        )
        for name in (rounds[0].idle_bytes if rounds else ())
    ]


def rows(outcome: Outcome) -> list[Row]:
    """The table, in the order of the first round."""
    return [_row(outcome, key) for key in (outcome.rounds[0].samples if outcome.rounds else ())]


def _row(outcome: Outcome, key: Key) -> Row:
    samples = [round_.samples[key] for round_ in outcome.rounds]
    used = [sample.cpu_us for sample in samples]
    middle = {name: median(getattr(each, name) for each in samples) for name in MIDDLE}
    varied = any(map(key[0].__contains__, VARIATIONS))
    return Row(
        *key,
        **middle,
        cpu_us_min=min(used),
        cpu_us_max=max(used),
        of_echo=None if varied else ratio(outcome, key, (ECHO, key[1])),
        slices=sum(sample.slices for sample in samples),
        noisy_slices=sum(sample.noisy_slices for sample in samples),
    )


def ratio(outcome: Outcome, upper: Key, lower: Key, read: str = "cpu_us") -> float | None:
    """The median of the ratios within each round, so that what slows a whole round cancels out; None: not measured."""
    pairs = _pairs(outcome, upper, lower, read)
    # What has no CPU time of its own compares with nothing.
    return median(above / below for above, below in pairs) if pairs and all(map(all, pairs)) else None


def difference(outcome: Outcome, upper: Key, lower: Key, read: str = "cpu_us") -> float | None:
    """The median of the differences within each round; None: not measured."""
    pairs = _pairs(outcome, upper, lower, read)
    return median(above - below for above, below in pairs) if pairs else None


def _pairs(outcome: Outcome, upper: Key, lower: Key, read: str) -> list[tuple[float, float]]:
    """A figure of both samples, of each round that has both."""
    found = [(round_.samples.get(upper), round_.samples.get(lower)) for round_ in outcome.rounds]
    return [(getattr(above, read), getattr(below, read)) for above, below in found if above and below]


def median_of(outcome: Outcome, key: Key, read: str) -> float | None:
    """The median of a figure over the rounds; None if it was not measured."""
    samples = [round_.samples[key] for round_ in outcome.rounds if key in round_.samples]
    found = [figure for sample in samples if (figure := getattr(sample, read)) is not None]
    return median(found) if found else None
