"""The figures with their limits, and what else is worth comparing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tests.bench import figures as f
from tests.bench.figures import ALONE, CROWD, FEW, LOAD, PACES, Key, Outcome, difference, median_of, paced, ratio

Measure = Callable[[Outcome], float | None]  # None: not measured
MAIN: Key = (f.TOOLGATE, LOAD)
REFERENCE: Key = (f.REFERENCE, LOAD)
LONE: Key = (f.REFERENCE, ALONE)
LONE_MINIMAL: Key = (f.MINIMAL, ALONE)
LONG_BYTES, SHORT_BYTES = 100_000, 300


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured, how, and its limit: at most, or with `at_least` at least."""

    what: str
    measure: Measure
    unit: str = "x"
    limit: float | None = None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One figure as it was measured. What is not measured in several rounds has no lowest and highest."""

    group: str
    what: str
    measured: float
    unit: str
    limit: float | None
    at_least: bool
    lowest: float | None = None  # of the rounds
    highest: float | None = None

    @property
    def ok(self) -> bool:
        if self.limit is None:
            return True
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def lines(outcome: Outcome) -> list[Line]:
    """Every figure that was measured, by groups."""
    found = [(group, each, each.measure(outcome)) for group, figures in FIGURES.items() for each in figures]
    return [_line(outcome, group, each, measured) for group, each, measured in found if measured is not None]


def _line(outcome: Outcome, group: str, figure: Figure, measured: float) -> Line:
    line = Line(group, figure.what, measured, figure.unit, figure.limit, figure.at_least)
    alone = (figure.measure(replace(outcome, rounds=[round_])) for round_ in outcome.rounds)
    each = [found for found in alone if found is not None]
    if len(each) < 2 or figure.measure(replace(outcome, rounds=[])) is not None:
        return line
    return replace(line, lowest=min(each), highest=max(each))


def _over(upper: Key | str, lower: Key | str, read: str = "cpu_us") -> Measure:
    """The ratio of two rows, at 64 connections where nothing else is said; `read` is what of their samples."""
    return partial(ratio, upper=_key(upper), lower=_key(lower), read=read)


def _of(row: Key | str, read: str) -> Measure:
    """A figure of one row."""
    return partial(median_of, key=_key(row), read=read)


def _key(row: Key | str) -> Key:
    return (row, LOAD) if isinstance(row, str) else row


def _slope(long: str) -> Measure:
    """Nanoseconds of CPU time for each further byte of a body."""

    def measure(outcome: Outcome) -> float | None:
        more_us = difference(outcome, (long, LOAD), MAIN)
        return None if more_us is None else more_us * 1000 / (LONG_BYTES - SHORT_BYTES)

    return measure


def _verifications(outcome: Outcome) -> float | None:
    """How many verifications a forged token costs more than no token."""
    more_us = difference(outcome, (f.FORGED, LOAD), (f.UNKNOWN, LOAD))
    return None if more_us is None or outcome.verification_us is None else more_us / outcome.verification_us


def _idle_mb(outcome: Outcome) -> float | None:
    idle = [each.idle_bytes[f.MAIN_SUBJECT] for each in outcome.rounds if f.MAIN_SUBJECT in each.idle_bytes]
    return median(idle) / 1e6 if idle else None


def _apart(path: str) -> Measure:
    """A figure of what is measured after the rounds: `part.figure`, where the part was measured."""
    part, read = path.split(".")
    return lambda outcome: None if (found := getattr(outcome, part)) is None else getattr(found, read)


def _added(rate: float, limit: float | None = None) -> Figure:
    what = f"p99 added to the tool server's, {rate:,.0f} calls/s"
    upper, lower = (paced(f.REFERENCE, rate), LOAD), (paced(f.DIRECT, rate), LOAD)
    return Figure(what, partial(difference, upper=upper, lower=lower, read="p99_ms"), "ms", limit)


# Figures with limits come first in each group. They are relative to the minimal gateway of the same run where they can
# be: ratios to the echo and to nginx differ from one processor to another, and are not judged. The limit of "the same"
# is 1.1: rounds of a quiet machine differ by a few per cent.
FIGURES: dict[str, list[Figure]] = {
    "the whole": [
        Figure("a call without a line in the log / minimal gateway", _over(f.BARE, f.MINIMAL), limit=1.1),
        Figure("reference / minimal gateway", _over(REFERENCE, f.MINIMAL), limit=1.3),
        Figure("reference / Envoy with JWT and MCP bridge", _over(REFERENCE, f.ENVOY_BRIDGE), limit=1.05),
        Figure("without a call_id / Envoy with JWT and MCP bridge", _over(f.GUARDED, f.ENVOY_BRIDGE), limit=0.85),
        # The minimal gateway itself takes a 28th of FastMCP.
        Figure("FastMCP / reference", _over(f.FASTMCP, REFERENCE), limit=20.0, at_least=True),
        Figure("p50 of a lone caller, reference / minimal gateway", _over(LONE, LONE_MINIMAL, "p50_ms"), limit=1.3),
        Figure("p99 / p50, reference, 64 connections", _of(REFERENCE, "tail"), limit=2.5),
        *(_added(rate, 1.0 if rate == PACES[0] else None) for rate in PACES),
        Figure("idle memory", _idle_mb, "MB", 80.0),
        Figure("echo on the gateway's server / on uvicorn", _over(f.ECHO_OWN, f.ECHO)),
        Figure("echo on granian / on uvicorn", _over(f.ECHO_GRANIAN, f.ECHO)),
        Figure("a call without a line in the log / uvicorn echo", _over(f.BARE, f.ECHO)),
        Figure("reference / uvicorn echo", _over(REFERENCE, f.ECHO)),
        Figure("minimal gateway / uvicorn echo", _over(f.MINIMAL, f.ECHO)),
        Figure("reference / nginx proxy", _over(REFERENCE, f.NGINX_PROXY)),
        Figure("minimal gateway / nginx proxy", _over(f.MINIMAL, f.NGINX_PROXY)),
        Figure("p50 of a lone caller, reference / nginx", _over(LONE, (f.NGINX_PROXY, ALONE), "p50_ms")),
        Figure("reference / Envoy with JWT, a plain proxy", _over(REFERENCE, f.ENVOY)),
    ],
    "the guard": [
        Figure("RS256, limit, access line / without", _over(f.GUARDED, f.BARE), limit=1.25),
        Figure("the same with limits in Redis / without", _over(f.GUARDED_REDIS, f.BARE), limit=1.4),
        Figure("limits in Redis / in memory", _over(f.GUARDED_REDIS, f.GUARDED), limit=1.15),
        Figure("429 / 429 of the minimal gateway", _over(f.LIMITED, f.MINIMAL_LIMITED), limit=1.2),
        Figure("401 without a token / 429 of the minimal gateway", _over(f.UNKNOWN, f.MINIMAL_LIMITED), limit=1.05),
        Figure("bad signature beyond no token, in verifications", _verifications, "", 1.2),
        Figure("two workers / one, Redis", _over(f.WORKERS, f.REDIS), limit=1.1),
        Figure("429 / uvicorn echo", _over(f.LIMITED, f.ECHO)),
        Figure("one verification", lambda outcome: outcome.verification_us, "us"),
        Figure("reference, limits and records in Redis / in memory", _over(f.REFERENCE_REDIS, REFERENCE)),
    ],
    "protocols": [
        Figure("by MCP / by OTC", _over(f.FROM_MCP, f.BARE), limit=1.10),
        Figure("by MCP to MCP / by OTC to OXP", _over(f.MCP_TO_MCP, f.BARE), limit=1.25),
        Figure("to OpenAPI, body / by OTC to OXP", _over(f.TO_OPENAPI, f.BARE), limit=1.15),
        Figure("to OpenAPI, path and query / by OTC to OXP", _over(f.TO_OPENAPI_GET, f.BARE), limit=1.15),
        Figure("MCP to OpenAPI / Envoy with its MCP bridge", _over(f.MCP_TO_OPENAPI, f.ENVOY_BRIDGE)),
        Figure(
            "FastMCP's tools of an API / MCP to OpenAPI", _over(f.FASTMCP, f.MCP_TO_OPENAPI), limit=15.0, at_least=True
        ),
        Figure("FastMCP as an MCP proxy / MCP to MCP", _over(f.FASTMCP_PROXY, f.MCP_TO_MCP), limit=15.0, at_least=True),
    ],
    "kept calls": [
        Figure("keyed / without id", _over(f.KEYED, MAIN), limit=1.08),
        Figure("keyed / without id, Redis", _over(f.REDIS_KEYED, f.REDIS), limit=1.35),
        Figure("keyed, Redis Cluster / Redis", _over(f.CLUSTER_KEYED, f.REDIS_KEYED), limit=1.15),
        Figure("memory of a waiting call", _apart("waiting.kb_per_call"), "KB", 32.0),
        Figure("memory of a waiting callback call", _apart("waiting_callbacks.kb_per_call"), "KB", 16.0),
        Figure("callback to answer, p99", _of(f.CALLBACK_PACED, "handover_p99_ms"), "ms", 2.0),
        Figure("callback to answer, p99, Redis", _of(f.CALLBACK_REDIS_PACED, "handover_p99_ms"), "ms", 5.0),
        Figure("callback calls on one core, Redis", _of(f.CALLBACK_REDIS, "calls_per_s"), "/s", 1000.0, at_least=True),
        # Asked for is 1,000; the last of them is answered a moment after the end.
        Figure("steady callback calls, Redis", _apart("sustained.calls_per_s"), "/s", 990.0, at_least=True),
        Figure("memory growth meanwhile", _apart("sustained.growth_percent"), "%", 5.0),
        Figure("calls at once on one event stream", _apart("stream.calls"), "", 1000.0, at_least=True),
        Figure("time until all of them are answered", _apart("stream.wall_s"), "s"),
        Figure("CPU of each of them", _apart("stream.cpu_us"), "us"),
    ],
    "size": [
        Figure("512 connections / 16", _over((f.TOOLGATE, CROWD), (f.TOOLGATE, FEW)), limit=1.4),
        Figure("many tools / 10", _over(f.TOOLGATE_MANY, MAIN), limit=1.1),
        Figure("many routes / one", _over(f.TOOLGATE_ROUTES, MAIN), limit=1.1),
        Figure("many backends / one", _over(f.TOOLGATE_BACKENDS, MAIN), limit=1.1),
        Figure("many waiting calls / none", _over(f.TOOLGATE_CROWD, MAIN), limit=1.1),
        Figure("loading a document of 1,223 operations", _apart("document.load_s"), "s", 1.5),
        Figure("memory that it takes", _apart("document.memory_mb"), "MB", 60.0),
        Figure("looking at it again, unchanged", _apart("document.look_s"), "s", 0.2),
        Figure("a byte of the body", _slope(f.TOOLGATE_100K), "ns"),
        Figure("a byte of a body of notes", _slope(f.TOOLGATE_NOTES), "ns"),
    ],
}
