"""Reports of a run: for people, and as JSON, JUnit and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from toolgate_conformance.checks import NEEDS_CALL, Check, Level, Outcome, Report, Status

SIGNS = {Status.PASSED: "✓", Status.FAILED: "✕", Status.SKIPPED: "-"}
COLOURS = {Status.PASSED: "32", Status.FAILED: "31", Status.SKIPPED: "2"}
INDENT = "    "
FEW_LINES, MANY_LINES = 5, 1000  # of a message that was sent or came
MAX_LINE = 200  # characters of one of few lines


def summary(report: Report) -> str:
    """One line: how many passed, failed and were skipped, and what failed by level."""
    counts = [f"{len(report.of(status))} {status}" for status in Status]
    failed = [f"{len(found)} {level}" for level in Level if (found := report.of(Status.FAILED, level))]
    return f"{', '.join(counts)}" + (f" (failed: {', '.join(failed)})" if failed else "")


def for_people(report: Report, *, colour: bool, verbose: bool) -> Iterator[str]:
    """The summary first, then what failed, the gravest first, as a list and one by one.

    With `verbose` also what passed, and messages in full.
    """
    verdict = "conforms" if report.is_good else "does not conform"
    yield f"{report.subject} {verdict} to {report.protocol}: {summary(report)}"
    if lacking := [it for it in report.of(Status.SKIPPED) if it.reason == NEEDS_CALL]:
        count = "1 check needs" if len(lacking) == 1 else f"{len(lacking)} checks need"
        yield f"{count} a tool that may run: name one with --call TOOL JSON."
    failed = [outcome for level in Level for outcome in report.of(Status.FAILED, level)]
    for outcome in failed:
        yield _painted(f"{SIGNS[Status.FAILED]} {_title(outcome.check)}", Status.FAILED, colour=colour)
    for outcome in failed:
        yield ""
        yield from _failed(outcome, most=MANY_LINES if verbose else FEW_LINES)
    if not verbose:
        return
    for outcome in report.outcomes:
        if outcome.status is not Status.FAILED:
            reason = f" ({outcome.reason})" if outcome.reason else ""
            yield _painted(f"{SIGNS[outcome.status]} {_title(outcome.check)}{reason}", outcome.status, colour=colour)


def _title(check: Check) -> str:
    return f"{check.id} {check.level}: {check.title}"


def _painted(text: str, status: Status, *, colour: bool) -> str:
    return f"\x1b[{COLOURS[status]}m{text}\x1b[0m" if colour else text


def _failed(outcome: Outcome, *, most: int = MANY_LINES) -> Iterator[str]:
    """What is to be known of a failure; of each message at most so many lines."""
    check = outcome.check
    yield _title(check)
    yield f"{INDENT}source:   {check.section}"
    yield f"{INDENT}expected: {outcome.reason}"
    if outcome.exchange is not None:
        yield from _block("sent:", outcome.exchange.sent, most)
        yield from _block("came:", outcome.exchange.came, most)
    yield f"{INDENT}fix:      {check.remedy}"


def _block(name: str, text: str, most: int) -> Iterator[str]:
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    if len(lines) > most:  # the first and the last say most: the line of the request or status, and the body
        lines = [*lines[: most - 2], "...", lines[-1]]
    if most == FEW_LINES:
        lines = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..." for line in lines]
    first, *rest = lines
    yield f"{INDENT}{name:<9} {first}"
    yield from (f"{INDENT}{'':<9} {line}" for line in rest)


def explained(check: Check) -> Iterator[str]:
    """What a check is about."""
    yield _title(check)
    yield f"{INDENT}source: {check.section}"
    yield f"{INDENT}fix:    {check.remedy}"


def as_json(report: Report) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "protocol": report.protocol,
        "subject": report.subject,
        "conforms": report.is_good,
        "counts": {str(status): len(report.of(status)) for status in Status},
        "checks": [_entry(outcome) for outcome in report.outcomes],
    }


def _entry(outcome: Outcome) -> dict[str, Any]:
    check, exchange = outcome.check, outcome.exchange
    found: dict[str, Any] = {
        "id": check.id,
        "level": str(check.level),
        "title": check.title,
        "section": check.section,
        "status": str(outcome.status),
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.status is Status.FAILED:
        found |= {"expected": outcome.reason, "remedy": check.remedy}
        if exchange is not None:
            found |= {"sent": exchange.sent, "came": exchange.came}
    elif outcome.reason:
        found["reason"] = outcome.reason
    return found


def as_junit(report: Report) -> str:
    """A test suite, as build servers read it; only what is binding fails."""
    suite = ElementTree.Element(
        "testsuite",
        name=report.protocol,
        tests=str(len(report.outcomes)),
        failures=str(len(report.of(Status.FAILED, Level.MUST))),
        skipped=str(len(report.of(Status.SKIPPED)) + len(_advice(report))),
    )
    for outcome in report.outcomes:
        check = outcome.check
        case = ElementTree.SubElement(
            suite, "testcase", classname=report.protocol, name=_title(check), time=f"{outcome.seconds:.3f}"
        )
        if outcome.status is Status.FAILED and check.level is Level.MUST:
            failure = ElementTree.SubElement(case, "failure", message=_clean(outcome.reason))
            failure.text = _clean("\n".join(_failed(outcome)))
        elif outcome.status is not Status.PASSED:
            ElementTree.SubElement(case, "skipped", message=_clean(outcome.reason))
    return ElementTree.tostring(suite, "unicode", xml_declaration=True) + "\n"


def _advice(report: Report) -> list[Outcome]:
    return [outcome for outcome in report.of(Status.FAILED) if outcome.check.level is not Level.MUST]


def _clean(text: str) -> str:
    """Without the characters that XML 1.0 does not have."""
    return "".join(char if char in "\t\n" or char >= " " else "�" for char in text)


def as_markdown(report: Report) -> str:
    """A summary and a table of what did not pass."""
    lines = [f"# {report.protocol}: {report.subject}", "", summary(report), ""]
    left = [outcome for outcome in report.outcomes if outcome.status is not Status.PASSED]
    if left:
        lines += ["| check | level | title | what came of it |", "|---|---|---|---|"]
    for it in left:
        cells = (it.check.id, it.check.level, it.check.title, f"{it.status}: {it.reason}")
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
