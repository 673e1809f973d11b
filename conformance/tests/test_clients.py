"""The checks of clients: a good client passes them all, and each finds the mistake that it is for."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from tests.support.processes import until
from toolgate_conformance.checks import Report, Status, UnfitError
from toolgate_conformance.clients import client_checks, client_subject, scenarios_of
from toolgate_conformance.clients.scenarios import SCENARIOS
from toolgate_conformance.rest import FORMS, Form
from toolgate_conformance.running import run

GOOD, BAD, OWN = ([sys.executable, "-m", f"conformance.tests.{name}_client"] for name in ("good", "bad", "own"))

HANGING_S = 15.0  # below the limit of a command


async def judge(form: Form, command: Sequence[str], within: frozenset[str], limit_s: float = 25.0) -> Report:
    """The report of the checks that need no more than some scenarios."""
    needed = scenarios_of(form)
    checks = [check for check in client_checks(form) if within.issuperset(needed[check.id])]
    async with client_subject(form, command, limit_s=limit_s) as subject:
        # At the same time, which the checks by themselves would not do.
        await asyncio.gather(*(subject.seen(name) for name in within))
        return await run(form.source, "client", checks, subject)


def failures(report: Report) -> set[str]:
    return {outcome.check.id for outcome in report.of(Status.FAILED)}


@pytest.mark.parametrize("form", FORMS)
def test_a_good_client_passes_every_check(form: str) -> None:
    report = asyncio.run(judge(FORMS[form], [*GOOD, form], frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


def test_our_own_client_passes_every_check() -> None:
    report = asyncio.run(judge(FORMS["oxp"], OWN, frozenset(SCENARIOS)))
    assert [(it.check.id, it.reason) for it in report.outcomes if it.status is not Status.PASSED] == []


# The dialect, the mistake, the check that finds it, and those that cannot but fail with it.
MISTAKES: list[tuple[str, str, int, set[int]]] = [
    ("oxp", "ListsNothing", 1, set()),
    ("oxp", "NamesNoVersion", 2, set()),
    ("otc", "NamesNoVersion", 2, set()),
    ("rfc", "NamesNoVersion", 2, set()),
    ("oxp-env", "NamesNoVersion", 2, set()),
    ("oxp", "NamesOtherVersion", 3, set()),
    ("otc", "NamesOtherVersion", 3, set()),
    ("oxp-env", "NamesOtherVersion", 3, set()),
    ("oxp", "DropsPath", 4, set()),
    ("oxp", "CallsElsewhere", 10, {30}),  # no value comes from there
    ("lc", "CallsElsewhere", 10, {30}),
    ("oxp", "SendsText", 11, set()),
    ("oxp", "ChangesInput", 12, set()),
    ("rfc", "ChangesInput", 12, set()),
    ("oxp", "AddsMember", 13, set()),
    ("oxp-env", "AddsMember", 13, set()),
    ("oxp", "MakesItsOwnId", 14, set()),
    ("otc", "SendsNoId", 14, set()),
    ("oxp", "HasOneId", 15, {14}),  # its one id is not the one that it was given
    ("oxp", "CallsTwice", 16, set()),
    ("oxp", "DropsVersion", 17, set()),
    ("oxp", "ComparesText", 18, set()),
    ("oxp", "SpeaksAscii", 19, set()),
    ("oxp", "CountsInFloats", 20, set()),
    ("oxp", "PrintsResult", 30, set()),
    ("oxp", "TakesNullForFailure", 31, set()),
    ("oxp", "KnowsAllMembers", 32, set()),
    ("oxp", "WaitsForHalfASecond", 33, set()),
    ("oxp", "WantsTypes", 34, set()),
    ("oxp", "TakesNoToolForSuccess", 35, set()),
    ("oxp", "TakesPagesForValues", 36, set()),
    ("oxp", "TakesRefusedListForSuccess", 37, set()),
    ("lc", "TakesRefusedListForSuccess", 37, set()),
    ("oxp", "IgnoresFailures", 40, set()),
    ("lc", "IgnoresFailures", 40, set()),
    ("oxp", "IgnoresRefusals", 41, set()),
    ("oxp", "IgnoresRefusals", 42, set()),
    ("oxp", "RetriesAll", 43, set()),
    ("rfc", "RetriesAll", 43, set()),
    ("oxp", "RetriesUnlessTold", 44, set()),
    ("oxp", "RetriesRefusals", 45, set()),
    ("oxp", "SaysNothing", 46, set()),
    ("oxp", "SaysMessageOnly", 47, set()),
    ("oxp", "DoesNotPause", 48, set()),
    ("oxp", "TriesOnce", 49, set()),
    ("oxp", "TriesOnAndOn", 50, set()),
    ("oxp", "RepeatsUnderNewIds", 51, set()),
    ("otc", "RepeatsUnderNewIds", 51, set()),
    ("oxp", "GivesUpWhenBroken", 52, set()),
    ("oxp", "DoesNotPause", 53, set()),
    ("oxp", "ListsWithoutCredential", 60, set()),
    ("oxp", "HasCredentialInUrl", 61, set()),
    ("oxp", "HasSecretInUrl", 61, set()),
    ("oxp", "FollowsRedirects", 62, {63}),  # the input goes with the credential
    ("oxp", "FollowsWithoutCredential", 63, set()),
    ("oxp", "PrintsCredential", 64, set()),
    ("oxp", "SendsAllSecrets", 65, set()),
    ("otc", "SendsAllSecrets", 65, set()),
    ("oxp", "SendsAllSecrets", 66, set()),
    ("oxp", "MisspellsSecrets", 67, set()),
    ("oxp", "PrintsSecrets", 68, set()),
    ("oxp", "FollowsWithoutCredential", 69, set()),
    ("otc", "FollowsWithoutCredential", 69, set()),
    ("oxp", "OpensPage", 70, set()),
    ("oxp", "HidesPage", 71, set()),
    ("oxp", "ShowsCredentialToProvider", 72, set()),
    ("oxp", "DoesNotWaitForUser", 73, set()),
]


@pytest.mark.parametrize(("form", "mistake", "number", "also"), MISTAKES)
def test_a_mistake_fails_the_check_that_is_for_it(form: str, mistake: str, number: int, also: set[int]) -> None:
    needed = scenarios_of(FORMS[form])
    wrong = {number: f"{FORMS[form].prefix}C-{number:03d}" for number in {number} | also}
    command = [*BAD, form, "--mistake", mistake, "{call_id}"]
    report = asyncio.run(judge(FORMS[form], command, frozenset(needed[wrong[number]])))
    assert failures(report) == set(wrong.values())
    assert all(outcome.exchange is not None for outcome in report.of(Status.FAILED))


@pytest.mark.parametrize(("behaviour", "scenario"), [("MakesItsOwnId", "plain"), ("UsesBrowser", "challenge")])
def test_what_a_client_may_do_fails_nothing(behaviour: str, scenario: str) -> None:
    command = [*BAD, "oxp", "--mistake", behaviour]
    report = asyncio.run(judge(FORMS["oxp"], command, frozenset({scenario})))
    assert failures(report) == set()


def test_there_is_a_mistake_for_every_check() -> None:
    assert {number for form, _, number, _ in MISTAKES if form == "oxp"} == {
        int(check.id.rpartition("-")[2]) for check in client_checks(FORMS["oxp"])
    }


def test_the_checks_of_a_dialect_have_ids_of_their_own() -> None:
    found = [check.id for form in FORMS.values() for check in client_checks(form)]
    assert len(set(found)) == len(found)
    assert {"OTCC-010", "RFCC-010", "OXPC-010", "ENVC-010", "LCC-010"} <= set(found)


def test_a_command_that_never_ends_is_ended_and_fails() -> None:
    command = [*BAD, "oxp", "--mistake", "NeverEnds"]
    report = asyncio.run(judge(FORMS["oxp"], command, frozenset({"empty"}), limit_s=1.0))
    assert failures(report) == {"OXPC-035"}


def test_what_a_command_starts_ends_with_it() -> None:
    async def watch() -> None:
        async with client_subject(FORMS["oxp"], ["sh", "-c", "sleep 60 & echo $!"]) as subject:
            child = Path(f"/proc/{int((await subject.seen('plain')).stdout)}/stat")
        # It is killed, and a zombie at most, for which nobody may wait here.
        await until(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z", "killed")

    began = monotonic()
    asyncio.run(watch())
    assert monotonic() - began < HANGING_S  # it holds the output of the command, which has long ended


def test_the_words_of_a_command_are_filled_in_once_and_by_no_shell() -> None:
    async def printed() -> list[str]:
        words = ["{tool}", "{input}", "{scenario}", "{call_id}", "{other}", "$HOME", "{url}/{token}"]
        script = "import sys; print(*sys.argv[1:], sep='\\n')"
        async with client_subject(FORMS["oxp"], [sys.executable, "-c", script, *words]) as subject:
            seen = await subject.seen("plain")
            assert seen.stdout.splitlines()[3] == seen.call_id
            assert seen.stdout.splitlines()[6] == f"{seen.url}/{seen.token}"
            return seen.stdout.splitlines()[:3] + seen.stdout.splitlines()[4:6]

    given = ["KitSums.Echo@1.0.0", '{"text": "hello", "count": 3}', "plain", "{other}", "$HOME"]
    assert asyncio.run(printed()) == given


def test_a_program_that_is_not_there_is_refused_before_anything_runs() -> None:
    async def opened(*command: str) -> None:
        async with client_subject(FORMS["oxp"], command):
            pass

    with pytest.raises(ValueError, match="no program"):
        asyncio.run(opened(os.devnull + "/nothing"))
    with pytest.raises(ValueError, match="no command"):
        asyncio.run(opened())


def test_a_client_that_does_nothing_fails_what_it_ought_to_do() -> None:
    report = asyncio.run(judge(FORMS["oxp"], ["true"], frozenset({"plain"})))
    assert {"OXPC-001", "OXPC-010", "OXPC-012", "OXPC-030", "OXPC-060"} <= failures(report)
    first = report.of(Status.FAILED)[0]
    assert first.exchange is not None
    assert (first.exchange.sent, first.exchange.came) == ("(nothing)", "(exit code 0)")


def test_a_report_shows_no_credential() -> None:
    async def exchange() -> str:
        async with client_subject(FORMS["oxp"], [*GOOD, "oxp"]) as subject:
            seen = await subject.seen("plain")
            with pytest.raises(UnfitError) as unfit:
                seen.must(False, "Anything.")
            assert unfit.value.exchange is not None
            assert seen.token not in unfit.value.exchange.sent
            return unfit.value.exchange.sent

    assert "authorization: ***" in asyncio.run(exchange())
