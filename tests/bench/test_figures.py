"""Medians, ratios and verdicts, from samples made up by hand."""

from __future__ import annotations

from array import array

import pytest

from tests.bench import figures, report
from tests.bench.figures import Outcome, Round, Sample, Slice, Visit, Waiting
from tests.bench.machine import Cores
from tests.bench.rounds import FULL
from tests.bench.swarm import Timings

CORES = Cores(frozenset({0}), frozenset({1}))


def sample(cpu_us: float, foreign_cores: float = 0.0) -> Sample:
    """A thousand calls of 1 ms."""
    timings = Timings(1.0, array("q", [1_000_000] * 1000))
    return Sample.of([Slice(timings, cpu_us / 1000, foreign_cores)])


def measured_round(echo_us: float, toolgate_us: float, *, foreign_cores: float = 0.0) -> Round:
    toolgate = {count: sample(toolgate_us, foreign_cores) for count in (1, 8, 64, 256)}
    return {
        figures.ECHO: Visit(30_000_000, {1: sample(echo_us), 64: sample(echo_us)}),
        figures.TOOLGATE: Visit(60_000_000, toolgate),
        figures.TOOLGATE_MANY: Visit(70_000_000, {64: sample(toolgate_us)}),
        figures.TOOLGATE_EVERY: Visit(70_000_000, {64: sample(toolgate_us * 1.5)}),
    }


def verdicts(outcome: Outcome) -> dict[str, bool]:
    return {line.what: line.ok for line in figures.lines(outcome) if line.owed is not None}


def test_a_sample_leaves_out_the_disturbed_slices_but_keeps_their_latencies() -> None:
    calm = Slice(Timings(1.0, array("q", [1_000_000] * 80)), 0.8, 0.0)
    disturbed = Slice(Timings(1.0, array("q", [9_000_000] * 40)), 0.9, 0.7)
    taken = Sample.of([disturbed, calm, calm])
    assert (round(taken.cpu_us), taken.calls_per_s, taken.noisy_slices) == (10_000, 80, 1)
    assert (taken.p50_ms, taken.p99_ms) == (1.0, 9.0)


def test_a_row_is_the_median_of_its_rounds() -> None:
    rounds = [measured_round(20, 40), measured_round(20, 90), measured_round(20, 50)]
    row = next(row for row in figures.rows(Outcome(rounds, Waiting(10, 1024))) if row.connections == 256)
    assert row.subject == figures.TOOLGATE
    assert [round(us) for us in (row.cpu_us, row.cpu_us_min, row.cpu_us_max)] == [50, 40, 90]


def test_ratios_are_taken_within_a_round_so_that_a_slow_round_cancels_out() -> None:
    rounds = [measured_round(20, 40), measured_round(80, 160), measured_round(10, 20)]
    lines = figures.lines(Outcome(rounds, Waiting(10, 1024)))
    assert lines[0].measured == pytest.approx(2.0)


def test_everything_owed_is_judged() -> None:
    assert list(verdicts(Outcome([measured_round(20, 59)], Waiting(10, 32 * 1024))).values()) == [True] * 5


@pytest.mark.parametrize(
    ("echo_us", "waiting_bytes", "over"),
    [(10, 1024, "CPU of a call / uvicorn echo"), (30, 33 * 1024, "memory of a waiting call")],
)
def test_what_exceeds_the_limit_is_named(echo_us: float, waiting_bytes: float, over: str) -> None:
    outcome = Outcome([measured_round(echo_us, 60)], Waiting(10, waiting_bytes))
    assert [what for what, ok in verdicts(outcome).items() if not ok] == [over]
    assert [line for line in report.text(outcome, FULL, CORES).splitlines() if line.endswith("OVER")]


def test_a_noisy_machine_and_a_missing_nginx_are_told() -> None:
    text = report.text(Outcome([measured_round(20, 40, foreign_cores=0.6)], Waiting(10, 1024)), FULL, CORES)
    assert "The machine was not quiet." in text
    assert "Toolgate, 64 connections: 1 of 1" in text
    assert "nginx is not installed and left out." in text


def test_one_core_is_told() -> None:
    one = Cores(frozenset({0}), frozenset({0}))
    assert "nothing is pinned" in report.text(Outcome([measured_round(20, 40)], Waiting(10, 1024)), FULL, one)
