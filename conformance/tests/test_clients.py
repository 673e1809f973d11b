"""The checks of clients: good ones pass them all, and each finds the mistake that it is for."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from conformance.tests.judging import AT_ONCE, check_of, failures, forked, grouped, judge, python, reasons
from conformance.tests.own import OwnClient, OwnRcrtClient, OwnRuntime
from tests.support.processes import until
from toolgate_conformance.checks import Status, UnfitError
from toolgate_conformance.clients.program import LIMIT_S
from toolgate_conformance.clients.rap.subject import RapRuntime
from toolgate_conformance.clients.rcrt.subject import RcrtClient
from toolgate_conformance.clients.rest.subject import RestClient
from toolgate_conformance.protocols import CLIENTS
from toolgate_conformance.servers.rest.forms import FORMS

pytestmark = pytest.mark.anyio

OXP = FORMS["oxp"]
GOOD = {
    **{name: python("good_client", name) for name in FORMS},
    "rap": python("good_runtime"),
    "rcrt": python("good_rcrt_client"),
}
HANGING_S = 15.0  # below the limit of a command


@pytest.mark.parametrize("protocol", GOOD)
async def test_a_good_client_passes_every_check(protocol: str) -> None:
    report = await judge(protocol, forked(protocol, GOOD[protocol]))
    assert {it.check.id: it.reason for it in report.outcomes if it.status is not Status.PASSED} == {}


Open = Callable[[list[str]], AbstractAsyncContextManager[Any]]
OWN: dict[str, Open] = {"oxp": partial(OwnClient, OXP), "rap": OwnRuntime, "rcrt": OwnRcrtClient}


@pytest.mark.parametrize("protocol", OWN)
async def test_toolgate_passes_every_check(protocol: str) -> None:
    report = await judge(protocol, OWN[protocol](["true"]))
    assert {it.check.id: it.reason for it in report.outcomes if it.status is not Status.PASSED} == {}


# What a client may do, the scenarios in which it does it, and the checks that have nothing to try then.
HARMLESS: list[tuple[str, Sequence[str], Sequence[str] | None, set[int]]] = [
    ("oxp", python("bad_client", "oxp", "--mistake", "MakesItsOwnId"), ["plain"], set()),
    ("oxp", python("bad_client", "oxp", "--mistake", "UsesBrowser"), ["challenge"], set()),
    ("rcrt", python("other_rcrt_client", "OpensNoStream"), None, {4, *range(41, 45), 47, 58}),
    ("rcrt", python("other_rcrt_client", "NamesNoId"), None, set()),
    ("rcrt", python("other_rcrt_client", "SendsTokenInQuery"), None, set()),
]


@pytest.mark.parametrize(("protocol", "command", "within", "skipped"), HARMLESS, ids=lambda value: str(value)[-24:])
async def test_what_a_client_may_do_fails_no_check(
    protocol: str, command: Sequence[str], within: Sequence[str] | None, skipped: set[int]
) -> None:
    report = await judge(protocol, forked(protocol, command), within)
    assert failures(report) == {}
    assert {int(id_[-3:]) for id_ in reasons(report, Status.SKIPPED)} == skipped


# By protocol: each mistake, the check that finds it, and those that cannot but fail with it.
MISTAKES: dict[str, list[tuple[str, int, set[int]]]] = {
    "oxp": [
        ("ListsNothing", 1, set()),
        ("NamesNoVersion", 2, set()),
        ("NamesOtherVersion", 3, set()),
        ("DropsPath", 4, set()),
        ("CallsElsewhere", 10, {30}),  # no value comes from there
        ("SendsText", 11, set()),
        ("ChangesInput", 12, set()),
        ("AddsMember", 13, set()),
        ("MakesItsOwnId", 14, set()),
        ("HasOneId", 15, {14}),  # its one id is not the one that it was given
        ("CallsTwice", 16, set()),
        ("DropsVersion", 17, set()),
        ("ComparesText", 18, set()),
        ("SpeaksAscii", 19, set()),
        ("CountsInFloats", 20, set()),
        ("PrintsResult", 30, set()),
        ("TakesNullForFailure", 31, set()),
        ("KnowsAllMembers", 32, set()),
        ("WaitsForHalfASecond", 33, set()),
        ("WantsTypes", 34, set()),
        ("TakesNoToolForSuccess", 35, set()),
        ("TakesPagesForValues", 36, set()),
        ("TakesRefusedListForSuccess", 37, set()),
        ("IgnoresFailures", 40, set()),
        ("IgnoresRefusals", 41, set()),
        ("IgnoresRefusals", 42, set()),
        ("RetriesAll", 43, set()),
        ("RetriesUnlessTold", 44, set()),
        ("RetriesRefusals", 45, set()),
        ("SaysNothing", 46, set()),
        ("SaysMessageOnly", 47, set()),
        ("DoesNotPause", 48, set()),
        ("TriesOnce", 49, set()),
        ("TriesOnAndOn", 50, set()),
        ("RepeatsUnderNewIds", 51, set()),
        ("GivesUpWhenBroken", 52, set()),
        ("DoesNotPause", 53, set()),
        ("ListsWithoutCredential", 60, set()),
        ("HasCredentialInUrl", 61, set()),
        ("HasSecretInUrl", 61, set()),
        ("FollowsRedirects", 62, {63}),  # the input goes with the credential
        ("FollowsWithoutCredential", 63, set()),
        ("PrintsCredential", 64, set()),
        ("SendsAllSecrets", 65, set()),
        ("SendsAllSecrets", 66, set()),
        ("MisspellsSecrets", 67, set()),
        ("PrintsSecrets", 68, set()),
        ("FollowsWithoutCredential", 69, set()),
        ("OpensPage", 70, set()),
        ("HidesPage", 71, set()),
        ("ShowsCredentialToProvider", 72, set()),
        ("DoesNotWaitForUser", 73, set()),
    ],
    "otc": [
        ("NamesNoVersion", 2, set()),
        ("NamesOtherVersion", 3, set()),
        ("SendsNoId", 14, set()),
        ("RepeatsUnderNewIds", 51, set()),
        ("SendsAllSecrets", 65, set()),
        ("FollowsWithoutCredential", 69, set()),
    ],
    "rfc": [
        ("NamesNoVersion", 2, set()),
        ("ChangesInput", 12, set()),
        ("RetriesAll", 43, set()),
    ],
    "oxp-env": [
        ("NamesNoVersion", 2, set()),
        ("NamesOtherVersion", 3, set()),
        ("AddsMember", 13, set()),
    ],
    "lc": [
        ("CallsElsewhere", 10, {30}),
        ("TakesRefusedListForSuccess", 37, set()),
        ("IgnoresFailures", 40, set()),
    ],
    "rap": [
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
    ],
    "rcrt": [
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
    ],
}
LIMITS_S = {"WaitsForNothing": 2.0}  # for a command that does not end
Mistake = tuple[str, str, int, set[int]]  # with the protocol


ALL_MISTAKES: list[Mistake] = [(protocol, *mistake) for protocol, all_ in MISTAKES.items() for mistake in all_]


async def found(mistake: Mistake, room: asyncio.Semaphore) -> dict[str, str]:
    """The checks that fail for a client with a mistake, out of those that need no more scenarios than its own check."""
    protocol, name, number, _ = mistake
    async with room:
        client = forked(protocol, bad(protocol, name), LIMITS_S.get(name, LIMIT_S))
        report = await judge(protocol, client, check_of(protocol, number).scenarios)
    assert all(outcome.exchange is not None for outcome in report.of(Status.FAILED)), failures(report)
    return failures(report)


def bad(protocol: str, mistake: str) -> list[str]:
    """The command of a client with a mistake."""
    if protocol == "rap":
        return python("bad_runtime", mistake)
    if protocol == "rcrt":
        return python("bad_rcrt_client", mistake)
    return python("bad_client", protocol, "--mistake", mistake, "{call_id}")


@pytest.mark.parametrize("group", grouped(ALL_MISTAKES), ids=lambda group: f"{group[0][1]}-{group[-1][1]}")
async def test_a_mistake_fails_the_check_that_is_for_it(group: list[Mistake]) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    for mistake, reason in zip(group, await asyncio.gather(*(found(it, room) for it in group)), strict=True):
        protocol, _, number, also = mistake
        assert reason.keys() == {check_of(protocol, it).id for it in {number} | also}, (mistake, reason)


@pytest.mark.parametrize("protocol", ["oxp", "rap", "rcrt"])
def test_there_is_a_mistake_for_every_check(protocol: str) -> None:
    expected = {check_of(protocol, number).id for _, number, _ in MISTAKES[protocol]}
    assert expected == {check.id for check in CLIENTS[protocol].checks()}


def test_each_check_has_an_id_of_its_own() -> None:
    ids = [check.id for kind in CLIENTS.values() for check in kind.checks()]
    assert len(set(ids)) == len(ids)
    assert {"OTCC-010", "RFCC-010", "OXPC-010", "ENVC-010", "LCC-010", "RAPC-001", "RCRTC-001"} <= set(ids)


# Commands, started as those of users are.


@pytest.mark.parametrize(
    ("protocol", "open_", "failed"),
    [
        ("oxp", partial(RestClient, OXP), {"OXPC-001", "OXPC-010", "OXPC-012", "OXPC-030", "OXPC-060"}),
        ("rap", RapRuntime, {"RAPC-001", "RAPC-010", "RAPC-030", "RAPC-031"}),
        ("rcrt", RcrtClient, {check.id for check in CLIENTS["rcrt"].checks()}),
    ],
    ids=["oxp", "rap", "rcrt"],
)
async def test_a_client_that_does_nothing_fails_what_it_ought_to_do(
    protocol: str, open_: Open, failed: set[str]
) -> None:
    report = await judge(protocol, open_(["true"]), None if protocol == "rcrt" else ["plain"])
    assert failed <= failures(report).keys()
    exchange = report.of(Status.FAILED)[0].exchange
    assert exchange is not None
    assert (exchange.sent, exchange.came) == ("(nothing)", "(exit code 0)")


async def test_a_command_that_never_ends_is_ended_and_fails() -> None:
    command = python("bad_client", "oxp", "--mistake", "NeverEnds")
    report = await judge("oxp", RestClient(OXP, command, limit_s=1.0), ["empty"])
    assert failures(report).keys() == {"OXPC-035"}


async def test_what_a_command_starts_ends_with_it() -> None:
    began = monotonic()
    async with RestClient(OXP, ["sh", "-c", "sleep 60 & echo $!"]) as client:
        child = Path(f"/proc/{int((await client.seen('plain')).stdout)}/stat")
    # It is killed, and a zombie at most, for which nobody may wait here.
    await until(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z", "killed")
    assert monotonic() - began < HANGING_S  # it holds the output of the command, which has long ended


async def test_the_words_of_a_command_are_filled_in_once_and_by_no_shell() -> None:
    words = ["{tool}", "{input}", "{scenario}", "{other}", "$HOME", "{call_id}", "{url} {token}"]
    script = "import sys; print(*sys.argv[1:], sep='\\n')"
    async with RestClient(OXP, [sys.executable, "-c", script, *words]) as client:
        seen = await client.seen("plain")
    *known, call_id, url_and_token = seen.stdout.splitlines()
    assert known == ["KitSums.Echo@1.0.0", '{"text": "hello", "count": 3}', "plain", "{other}", "$HOME"]
    assert call_id == seen.call_id
    assert url_and_token.startswith("http://127.0.0.1:")
    assert url_and_token.endswith(f" {seen.token}")


@pytest.mark.parametrize(("command", "reason"), [([os.devnull + "/nothing"], "no program"), ([], "no command")])
def test_a_program_that_is_not_there_is_refused_before_anything_runs(command: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RestClient(OXP, command)


async def test_a_runtime_is_interrupted_even_if_the_kit_ignores_sigint() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a command in the background of a script
    try:
        report = await judge("rap", RapRuntime(GOOD["rap"]), ["interrupted"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert "RAPC-070" in reasons(report, Status.PASSED)


async def test_a_report_shows_no_credential() -> None:
    async with RestClient(OXP, GOOD["oxp"]) as client:
        seen = await client.seen("plain")
        with pytest.raises(UnfitError) as unfit:
            seen.must(False, "Anything.")
    assert unfit.value.exchange is not None
    assert seen.token not in unfit.value.exchange.sent
    assert "authorization: ***" in unfit.value.exchange.sent


@pytest.mark.parametrize(
    ("command", "sent", "came"),
    [
        (python("other_rcrt_client", "SendsTokenInQuery"), "access_token=***", ""),
        (python("bad_rcrt_client", "HasNoTitle"), "authorization: ***", "POST /breadcrumbs: 422 Failed to deserialize"),
    ],
)
async def test_a_report_shows_no_token_and_says_what_was_refused(command: list[str], sent: str, came: str) -> None:
    async with forked("rcrt", command) as client:
        seen = await client.seen("plain")
    with pytest.raises(UnfitError) as unfit:
        seen.must(False, "Anything.")
    assert unfit.value.exchange is not None
    assert seen.tokens
    assert not any(token in unfit.value.exchange.sent for token in seen.tokens)
    assert sent in unfit.value.exchange.sent
    assert came in unfit.value.exchange.came
