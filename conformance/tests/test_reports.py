"""Reports of a run, and what of it decides."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from toolgate_conformance.checks import Check, Exchange, Level, Outcome, Report, SkippedError, Status, UnfitError
from toolgate_conformance.reports import as_json, as_junit, as_markdown, explained, for_people, summary
from toolgate_conformance.running import chosen, run

pytestmark = pytest.mark.anyio


async def _nothing(subject: object) -> None:
    """A check that passes."""


def check(number: int, level: Level = Level.MUST) -> Check:
    return Check(f"KIT-{number:03d}", level, f"Does thing {number}", "Kit, page", f"Fix it: {number}.", _nothing)


def report() -> Report:
    exchange = Exchange("GET /\nauthorization: ***", "HTTP/1.1 200 OK\n\n\x1b[2J| a\x00")
    outcomes = [
        Outcome(check(1), Status.PASSED, 0.01),
        Outcome(check(2, Level.GOOD), Status.FAILED, 0.02, "A | sign.", exchange),
        Outcome(check(3), Status.FAILED, 0.03, "Status 400.", exchange),
        Outcome(check(4), Status.SKIPPED, 0.0, "Nothing to try."),
    ]
    return Report("Kit 1.0", "http://127.0.0.1:1", outcomes)


def test_people_read_the_summary_first_and_then_the_gravest() -> None:
    first, second, third, *lines = for_people(report(), colour=False, verbose=False)
    assert first == (
        "http://127.0.0.1:1 does not conform to Kit 1.0: 1 passed, 2 failed, 1 skipped (failed: 1 MUST, 1 GOOD)"
    )
    assert (second, third) == ("✕ KIT-003 MUST: Does thing 3", "✕ KIT-002 GOOD: Does thing 2")
    assert [line for line in lines if line.startswith("KIT")] == [second[2:], third[2:]]
    assert "    fix:      Fix it: 3." in lines
    assert "    source:   Kit, page" in lines
    assert not any("KIT-001" in line for line in lines)
    assert any("KIT-001" in line for line in for_people(report(), colour=False, verbose=True))


def test_long_messages_are_cut_unless_all_is_asked_for() -> None:
    sent = "\n".join(["POST /x HTTP/1.1", *(f"x-{number}: y" for number in range(20)), "", "b" * 500])
    outcome = Outcome(check(1), Status.FAILED, 0.0, "Better.", Exchange(sent, "HTTP/1.1 200 OK"))
    long = Report("Kit", "it", [outcome])
    few, all_ = (list(for_people(long, colour=False, verbose=verbose)) for verbose in (False, True))
    assert sum("x-" in line for line in few) == 2
    assert max(map(len, few)) < 230
    assert sum("x-" in line for line in all_) == 20
    assert any("b" * 500 in line for line in all_)


def test_programs_read_json() -> None:
    found = json.loads(json.dumps(as_json(report())))
    assert (found["conforms"], found["counts"]) == (False, {"passed": 1, "failed": 2, "skipped": 1})
    assert [each["status"] for each in found["checks"]] == ["passed", "failed", "failed", "skipped"]
    assert found["checks"][2] | {"sent": "", "came": "", "seconds": 0} == {
        "id": "KIT-003",
        "level": "MUST",
        "title": "Does thing 3",
        "section": "Kit, page",
        "status": "failed",
        "sent": "",
        "came": "",
        "seconds": 0,
        "expected": "Status 400.",
        "remedy": "Fix it: 3.",
    }


def test_build_servers_read_junit_in_which_only_what_is_binding_fails() -> None:
    suite = ElementTree.fromstring(as_junit(report()))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "2")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["KIT-003 MUST: Does thing 3"]


def test_markdown_has_a_row_for_all_that_did_not_pass() -> None:
    text = as_markdown(report())
    assert summary(report()) in text
    assert "| KIT-002 | GOOD | Does thing 2 | failed: A \\| sign. |" in text
    assert "KIT-001" not in text


def test_a_check_is_explained_with_its_source_and_its_remedy() -> None:
    assert list(explained(check(7))) == [
        "KIT-007 MUST: Does thing 7",
        "    source: Kit, page",
        "    fix:    Fix it: 7.",
    ]


def test_what_is_known_to_fail_decides_nothing() -> None:
    assert not report().is_good
    assert report().without(frozenset({"KIT-003"})).is_good
    assert not report().without(frozenset({"KIT-001", "KIT-002"})).is_good


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        ([], [1, 2]),
        (["kit-001"], [1]),
        (["KIT-00?"], [1, 2]),
        (["good"], [2]),
        (["KIT-9*"], []),
        (["MUST", "GOOD"], [1, 2]),
    ],
)
def test_checks_are_chosen_by_id_and_by_level(only: list[str], ids: list[int]) -> None:
    found = chosen([check(1), check(2, Level.GOOD)], only)
    assert [each.id for each in found] == [f"KIT-{number:03d}" for number in ids]


async def test_nothing_that_a_check_meets_ends_the_run() -> None:
    async def unfit(subject: object) -> None:
        raise UnfitError("Better.", Exchange("a", "b"))

    async def skipped(subject: object) -> None:
        raise SkippedError("No reason.")

    async def surprised(subject: object) -> None:
        raise KeyError("name")

    runs = (unfit, skipped, surprised, _nothing)
    checks = [Check(f"KIT-{number:03d}", Level.MUST, "", "", "", each) for number, each in enumerate(runs)]
    told: list[Outcome] = []
    found = await run("Kit", "it", checks, None, on_outcome=told.append)
    assert [it.status for it in found.outcomes] == ["failed", "skipped", "failed", "passed"]
    assert "KeyError" in found.outcomes[2].reason
    assert told == found.outcomes
