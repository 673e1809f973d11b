"""The checks of clients of RCRT: a good one passes them all, and each finds the mistake that it is for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import pytest

from toolgate_conformance.checks import Report, Status, UnfitError
from toolgate_conformance.clients.rcrt import rcrt_client, rcrt_client_checks, scenarios_of_rcrt
from toolgate_conformance.clients.rcrt.scenarios import SCENARIOS
from toolgate_conformance.clients.runs import LIMIT_S
from toolgate_conformance.running import run

GOOD, BAD, OTHER, OWN = (
    [sys.executable, "-m", f"conformance.tests.{name}_rcrt_client"] for name in ("good", "bad", "other", "own")
)


async def judge(command: Sequence[str], within: frozenset[str], limit_s: float = LIMIT_S) -> Report:
    """The report of the checks that need no more than some scenarios."""
    needed = scenarios_of_rcrt()
    checks = [check for check in rcrt_client_checks() if within.issuperset(needed[check.id])]
    async with rcrt_client(command, limit_s=limit_s) as client:
        await asyncio.gather(*(client.seen(name) for name in within))
        return await run("RCRT", "client", checks, client)


def failures(report: Report) -> dict[str, str]:
    return {outcome.check.id: outcome.reason for outcome in report.of(Status.FAILED)}


def test_a_good_client_passes_every_check() -> None:
    report = asyncio.run(judge(GOOD, frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


def test_toolgate_passes_every_check() -> None:
    report = asyncio.run(judge(OWN, frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


# What a client may do, and the checks that have nothing to try then.
HARMLESS: list[tuple[str, set[int]]] = [
    ("OpensNoStream", {4, *range(41, 45), 47, 58}),
    ("NamesNoId", set()),
    ("SendsTokenInQuery", set()),
]


@pytest.mark.parametrize(("trait", "skipped"), HARMLESS)
def test_what_a_client_may_do_fails_no_check(trait: str, skipped: set[int]) -> None:
    report = asyncio.run(judge([*OTHER, trait], frozenset(SCENARIOS)))
    assert failures(report) == {}
    assert {it.check.id for it in report.of(Status.SKIPPED)} == {f"RCRTC-{number:03d}" for number in skipped}


# The mistake, the check that finds it, and those that cannot but fail with it.
MISTAKES: list[tuple[str, int, set[int]]] = [
    ("NamesOtherOwner", 1, set()),
    ("AsksToRead", 2, set()),
    ("SendsNoToken", 3, {4, 50}),  # all that it sends is refused
    ("StreamsWithoutToken", 4, set()),
    ("KeepsToken", 5, set()),
    ("NamesOtherSchema", 10, {50}),  # nothing runs the tool, here and below
    ("HasNoTitle", 10, {50}),
    ("SendsText", 10, {50}),
    ("NamesOtherWorkspace", 11, {50}),
    ("ChecksHealth", 11, {50}),
    ("ChangesName", 12, {50}),
    ("AddsInput", 13, set()),
    ("SendsInputAsText", 13, set()),
    ("HasNumbersForIds", 14, set()),
    ("HasOneId", 15, {16}),  # which anyone can guess
    ("HasTimesForIds", 16, set()),
    ("TagsAsResponse", 17, set()),
    ("LivesForever", 18, set()),
    ("NamesNoTimeZone", 18, set()),
    ("ChangesRequest", 19, set()),
    ("DeletesRequest", 19, set()),
    ("KeepsTheSlash", 20, set()),
    ("DoesNotLook", 30, set()),
    ("GivesUp", 31, set()),
    ("TakesAnotherKey", 32, set()),
    ("WaitsForNothing", 33, set()),
    ("ExitsWithZero", 34, set()),
    ("RepeatsRefusals", 35, set()),
    ("RequestsAgain", 36, set()),
    ("RegistersLater", 40, set()),
    ("NeedsAllMembers", 41, set()),
    ("DecodesPieces", 42, set()),
    ("NeedsSpace", 43, set()),
    ("NeedsType", 44, set()),
    ("NeverPolls", 45, set()),
    ("NeverPolls", 46, set()),
    ("OpensTwoStreams", 47, set()),
    ("WaitsForCreated", 50, set()),
    ("PrintsContext", 50, set()),
    ("TakesAnySchema", 51, set()),
    ("TakesAgents", 51, set()),
    ("TakesAnyResponse", 52, set()),
    ("PrintsAll", 53, set()),
    ("ExitsWithZero", 54, set()),
    ("HidesFailures", 55, set()),
    ("GoesByTags", 56, set()),
    ("NeedsObject", 57, set()),
    ("KnowsOneForm", 58, set()),
]
LIMITS_S = {"WaitsForNothing": 2.0}  # for a command that does not end
AT_ONCE = 8  # are tried: most of it is waiting
GROUPS = [MISTAKES[start : start + 2 * AT_ONCE] for start in range(0, len(MISTAKES), 2 * AT_ONCE)]


async def found(mistake: str, number: int, room: asyncio.Semaphore) -> dict[str, str]:
    """The checks that fail for a client with a mistake, out of those that need no more scenarios than its own check."""
    within = frozenset(scenarios_of_rcrt()[f"RCRTC-{number:03d}"])
    async with room:
        report = await judge([*BAD, mistake], within, LIMITS_S.get(mistake, LIMIT_S))
    assert all(outcome.exchange is not None for outcome in report.of(Status.FAILED)), failures(report)
    return failures(report)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[0][0]}-{group[-1][0]}")
def test_a_mistake_fails_the_check_that_is_for_it(group: list[tuple[str, int, set[int]]]) -> None:
    async def all_found() -> list[dict[str, str]]:
        room = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(found(mistake, number, room) for mistake, number, _ in group))

    for (mistake, number, also), reasons in zip(group, asyncio.run(all_found()), strict=True):
        assert reasons.keys() == {f"RCRTC-{each:03d}" for each in {number} | also}, (mistake, reasons)


def test_there_is_a_mistake_for_every_check() -> None:
    assert sorted({f"RCRTC-{number:03d}" for _, number, _ in MISTAKES}) == [check.id for check in rcrt_client_checks()]


def test_a_client_that_does_nothing_fails_what_it_ought_to_do() -> None:
    report = asyncio.run(judge(["true"], frozenset(SCENARIOS)))
    assert failures(report).keys() == {check.id for check in rcrt_client_checks()}
    first = report.of(Status.FAILED)[0].exchange
    assert first is not None
    assert (first.sent, first.came) == ("(nothing)", "(exit code 0)")


def test_a_report_shows_no_token_and_says_what_was_refused() -> None:
    async def shown(*command: str) -> tuple[str, str]:
        async with rcrt_client(command) as client:
            seen = await client.seen("plain")
            with pytest.raises(UnfitError) as unfit:
                seen.must(False, "Anything.")
            assert unfit.value.exchange is not None
            assert seen.tokens
            assert not any(token in unfit.value.exchange.sent for token in seen.tokens)
            return unfit.value.exchange.sent, unfit.value.exchange.came

    sent, _ = asyncio.run(shown(*OTHER, "SendsTokenInQuery"))
    assert "access_token=***" in sent
    sent, came = asyncio.run(shown(*BAD, "HasNoTitle"))
    assert "authorization: ***" in sent
    assert "POST /breadcrumbs: 422 Failed to deserialize" in came
