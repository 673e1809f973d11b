"""Medians, ratios and verdicts, from samples made up by hand."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from tests.bench import figures, report
from tests.bench.figures import LOAD, LargeDocument, Outcome, Round, Sample, Slice, Stream, Sustained, Waiting
from tests.bench.machine import Cores
from tests.bench.plan import FULL
from tests.bench.swarm import Timings
from tests.bench.verdicts import FIGURES, lines

CORES = Cores(frozenset({0}), frozenset({1}))
ECHO_US, TOOLGATE_US = 20.0, 44.0
# Every row as a multiple of Toolgate's main row, all of it just within the limits.
RELATIVE = {
    figures.BARE: 1.0,
    figures.FROM_MCP: 1.1,
    figures.MCP_TO_MCP: 1.25,
    figures.TO_OPENAPI: 1.15,
    figures.TO_OPENAPI_GET: 1.15,
    figures.MCP_TO_OPENAPI: 1.5,
    figures.TOOLGATE: 1.0,
    figures.GUARDED: 1.2,
    figures.REFERENCE: 1.2,
    figures.GUARDED_REDIS: 1.35,
    figures.REFERENCE_REDIS: 1.7,
    figures.MINIMAL: 0.95,
    figures.MINIMAL_LIMITED: 0.6,
    figures.ENVOY_BRIDGE: 1.5,
    figures.ENVOY: 0.9,
    figures.FASTMCP: 25.0,
    figures.FASTMCP_PROXY: 20.0,
    figures.NGINX_PROXY: 0.3,
    figures.LIMITED: 0.6,
    figures.UNKNOWN: 0.6,
    figures.FORGED: 1.4,
    figures.KEYED: 1.07,
    figures.REDIS: 1.0,
    figures.REDIS_KEYED: 1.3,
    figures.CLUSTER_KEYED: 1.4,
    figures.WORKERS: 1.05,
    figures.TOOLGATE_MANY: 1.05,
    figures.TOOLGATE_ROUTES: 1.05,
    figures.TOOLGATE_BACKENDS: 1.05,
    figures.TOOLGATE_CROWD: 1.05,
    figures.TOOLGATE_100K: 3.0,
}
KEPT = (figures.CALLBACK, figures.CALLBACK_PACED, figures.CALLBACK_REDIS, figures.CALLBACK_REDIS_PACED)
PACED = [figures.paced(row, rate) for row in (figures.DIRECT, figures.REFERENCE) for rate in figures.PACES]


def timings(latency_ns: int, calls: int, handover_ns: int | None = None) -> Timings:
    """Calls that all took as long, in a second."""
    handovers = [] if handover_ns is None else [handover_ns] * calls
    return Timings(1.0, array("q", [latency_ns] * calls), array("q", handovers))


def sample(cpu_us: float, foreign_cores: float = 0.0, *, calls: int = 1000, handover_ns: int | None = None) -> Sample:
    """Calls of 1 ms."""
    return Sample.of([Slice(timings(1_000_000, calls, handover_ns), cpu_us * calls / 1e6, foreign_cores)])


def measured_round(echo_us: float, toolgate_us: float, *, foreign_cores: float = 0.0) -> Round:
    """A round in which all is just within the limits, but for the figures of Toolgate and echo."""
    samples = {(figures.ECHO, count): sample(echo_us) for count in (1, LOAD)}
    samples |= {(figures.TOOLGATE, count): sample(toolgate_us, foreign_cores) for count in (1, 16, LOAD, 512)}
    samples |= {(row, LOAD): sample(toolgate_us * factor, foreign_cores) for row, factor in RELATIVE.items()}
    samples |= {(row, 1): sample(toolgate_us) for row in (figures.REFERENCE, figures.MINIMAL, figures.NGINX_PROXY)}
    samples |= {(row, LOAD): sample(toolgate_us, handover_ns=2_000_000) for row in KEPT}
    samples |= {(row, LOAD): sample(0 if row.startswith(figures.DIRECT) else toolgate_us) for row in PACED}
    return Round({figures.MAIN_SUBJECT: 60_000_000}, {figures.MAIN_SUBJECT: 70_000_000}, samples)


def measured(*rounds: Round) -> Outcome:
    return Outcome(
        rounds=list(rounds),
        waiting=Waiting(10, 32),
        waiting_callbacks=Waiting(10, 16),
        stream=Stream(1000, 0.5, 100.0),
        sustained=Sustained(1000, 1.0, 6, 100_000_000, 104_000_000),
        document=LargeDocument(1.5, 60.0, 0.2),
        verification_us=30.0,
    )


def verdicts(outcome: Outcome) -> dict[str, bool]:
    return {line.what: line.ok for line in lines(outcome) if line.limit is not None}


def test_ratios_are_taken_within_a_round_so_that_a_slow_round_cancels_out() -> None:
    found = {line.what: line for line in lines(measured(measured_round(20, 40), measured_round(80, 200)))}
    whole = found["a call without a line in the log / uvicorn echo"]
    assert (whole.lowest, whole.measured, whole.highest) == pytest.approx((2.0, 2.25, 2.5))
    assert found["memory of a waiting call"].lowest is None


GOOD = measured(measured_round(ECHO_US, TOOLGATE_US))


def test_every_figure_with_a_limit_is_judged_and_just_within_it_holds() -> None:
    limited = [each.what for group in FIGURES.values() for each in group if each.limit is not None]
    assert verdicts(GOOD) == dict.fromkeys(limited, True)


@pytest.mark.parametrize(
    ("outcome", "over"),
    [
        (replace(GOOD, rounds=[replace(GOOD.rounds[0], idle_bytes={figures.MAIN_SUBJECT: 81_000_000})]), "idle memory"),
        (replace(GOOD, waiting=Waiting(10, 33)), "memory of a waiting call"),
        (replace(GOOD, stream=Stream(999, 0.5, 100.0)), "calls at once on one event stream"),
        (replace(GOOD, sustained=Sustained(1000, 1.0, 6, 1000, 1060)), "memory growth meanwhile"),
    ],
)
def test_a_figure_beyond_its_limit_is_named(outcome: Outcome, over: str) -> None:
    assert [what for what, ok in verdicts(outcome).items() if not ok] == [over]
    assert [line for line in report.text(outcome, FULL, CORES).splitlines() if line.endswith("OVER")]


def slow(p99_ns: int) -> Sample:
    """Calls of 1 ms, and some longer."""
    latencies = array("q", [1_000_000] * 980 + [p99_ns] * 20)
    return Sample.of([Slice(Timings(1.0, latencies, array("q")), 1.0, 0.0)])


@pytest.mark.parametrize(
    ("row", "worse", "over"),
    [
        (figures.GUARDED, sample(44 * 1.26), ["RS256, limit, access line / without"]),
        (figures.REFERENCE, sample(44 * 0.95 * 1.31), ["reference / minimal gateway"]),
        (figures.FORGED, sample(44 * 0.6 + 37), ["bad signature beyond no token, in verifications"]),
        (figures.CALLBACK_PACED, sample(44, handover_ns=2_100_000), ["callback to answer, p99"]),
        (figures.CALLBACK_REDIS, sample(44, calls=999), ["callback calls on one core, Redis"]),
        (figures.FASTMCP, sample(44 * 23), ["FastMCP / reference"]),
        (
            figures.ENVOY_BRIDGE,
            sample(44),
            [f"{which} / Envoy with JWT and MCP bridge" for which in ("reference", "without a call_id")],
        ),
        (figures.paced(figures.REFERENCE, 1500), slow(2_100_000), ["p99 added to the tool server's, 1,500 calls/s"]),
    ],
)
def test_only_the_figures_of_a_worse_row_are_over(row: str, worse: Sample, over: list[str]) -> None:
    whole = GOOD.rounds[0]
    outcome = replace(GOOD, rounds=[replace(whole, samples={**whole.samples, (row, LOAD): worse})])
    assert [what for what, ok in verdicts(outcome).items() if not ok] == over
