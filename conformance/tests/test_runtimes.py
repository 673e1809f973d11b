"""The checks of RAP runtimes: a good one passes them all, and each finds the mistake that it is for."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

import pytest

from toolgate_conformance.checks import Report, Status
from toolgate_conformance.clients.rap import rap_runtime, runtime_checks, scenarios_of_runtimes
from toolgate_conformance.clients.rap.scenarios import SCENARIOS
from toolgate_conformance.running import run

GOOD, BAD, OWN = ([sys.executable, "-m", f"conformance.tests.{name}_runtime"] for name in ("good", "bad", "own"))


async def judge(command: Sequence[str], within: frozenset[str]) -> Report:
    """The report of the checks that need no more than some scenarios."""
    needed = scenarios_of_runtimes()
    checks = [check for check in runtime_checks() if within.issuperset(needed[check.id])]
    async with rap_runtime(command) as runtime:
        await asyncio.gather(*(runtime.seen(name) for name in within))
        return await run("RAP", "runtime", checks, runtime)


def failures(report: Report) -> dict[str, str]:
    return {outcome.check.id: outcome.reason for outcome in report.of(Status.FAILED)}


def test_a_good_runtime_passes_every_check() -> None:
    report = asyncio.run(judge(GOOD, frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


def test_toolgate_passes_every_check() -> None:
    report = asyncio.run(judge(OWN, frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


# The mistake, the check that finds it, and those that cannot but fail with it.
MISTAKES: list[tuple[str, int, set[int]]] = [
    ("KnowsTheTool", 1, set()),
    ("KeepsTheSlash", 2, set()),
    ("TakesWhatFits", 3, set()),
    ("HasNoGroup", 10, set()),
    ("SendsText", 10, set()),
    ("AddsArgument", 11, set()),
    ("HasOneId", 12, set()),
    ("RetriesRefusals", 20, set()),
    ("TriesOnce", 21, set()),
    ("RetriesUnderNewIds", 22, set()),
    ("InvokesAgain", 23, set()),
    ("PrintsNothing", 30, set()),
    ("AnswersWithError", 31, set()),
    ("HasOnePath", 32, set()),
    ("TakesAnyPath", 33, set()),
    ("TakesAnyId", 34, set()),
    ("TakesAnyGroup", 34, set()),
    ("RegistersLater", 35, set()),
    ("PrintsAll", 36, set()),
    ("ReadsText", 37, set()),
    ("TakesViewsForResults", 38, set()),
    ("AcceptsAllTypes", 39, set()),
    ("TakesNewsForResults", 40, set()),
    ("HidesFailures", 41, set()),
    ("HidesConsent", 50, set()),
    ("InvokesAgain", 51, set()),
    ("ChoosesNothing", 52, set()),
    ("ChoosesByName", 52, set()),
    ("PrintsOnlyEvents", 60, set()),
    ("TakesEventsForResults", 61, set()),
    ("LooksForId", 62, set()),
    ("TakesEventsOfOtherCalls", 63, set()),
    ("TakesEventsOfOtherThreads", 63, set()),
    ("ReadsOn", 63, set()),
    ("LeavesSubscriptions", 64, set()),
    ("CancelsNothing", 70, set()),
    ("CancelsByNamesOfInvocations", 71, set()),
    ("CancelsWholeThread", 71, set()),
    ("SendsTextNotices", 71, set()),
    ("NotifiesEndpoint", 72, set()),
    ("NotifiesRoot", 72, set()),
    ("RepeatsNotices", 73, set()),
    ("WaitsForNotices", 74, set()),
    ("NotifiesWithoutToken", 75, set()),
    ("InvokesAfterCancelling", 76, set()),
    ("FailsAfterCancelling", 77, set()),
    ("PrintsLateResults", 78, set()),
    ("ClosesOtherThread", 80, set()),
    ("SendsTextNotices", 80, set()),
    ("NotifiesEndpoint", 80, set()),
    ("NotifiesRoot", 80, set()),
    ("ClosesEarly", 81, set()),
]


@pytest.mark.parametrize(("mistake", "number", "also"), MISTAKES)
def test_a_mistake_fails_the_check_that_is_for_it(mistake: str, number: int, also: set[int]) -> None:
    wrong = {f"RAPC-{each:03d}" for each in {number} | also}
    within = frozenset(scenarios_of_runtimes()[f"RAPC-{number:03d}"])
    report = asyncio.run(judge([*BAD, mistake], within))
    assert failures(report).keys() == wrong, failures(report)
    assert all(outcome.exchange is not None for outcome in report.of(Status.FAILED))


def test_there_is_a_mistake_for_every_check() -> None:
    assert sorted({f"RAPC-{number:03d}" for _, number, _ in MISTAKES}) == [check.id for check in runtime_checks()]


def test_a_runtime_that_does_nothing_fails_what_it_ought_to_do() -> None:
    report = asyncio.run(judge(["true"], frozenset({"plain"})))
    assert {"RAPC-001", "RAPC-010", "RAPC-030", "RAPC-031"} <= failures(report).keys()
    first = report.of(Status.FAILED)[0].exchange
    assert first is not None
    assert (first.sent, first.came) == ("(nothing)", "(exit code 0)")


def test_a_runtime_is_interrupted_even_if_the_kit_ignores_sigint() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a command in the background of a script
    try:
        report = asyncio.run(judge(GOOD, frozenset({"interrupted"})))
    finally:
        signal.signal(signal.SIGINT, before)
    assert "RAPC-070" in {outcome.check.id for outcome in report.of(Status.PASSED)}
