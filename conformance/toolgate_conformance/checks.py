"""What a check is, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

MAX_SHOWN = 2000  # characters of one message in a report
NEEDS_CALL = "A tool has to run for this: name one with --call TOOL JSON."  # why a check is skipped
SECRET_HEADERS = frozenset({"authorization", "oxp-api-key", "otc-api-key", "cookie"})


class Level(StrEnum):
    """How binding a check is: by the words of its source, or as good practice that no source demands."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    GOOD = "GOOD"


class Status(StrEnum):
    """What came of a check. `SKIPPED`: the program has nothing that it could be tried on."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Exchange(Struct, frozen=True):
    """What was sent and what came, as text; credentials are left out."""

    sent: str
    came: str


class UnfitError(Exception):
    """The program does not do what a check expects: `expected` is a sentence."""

    def __init__(self, expected: str, exchange: Exchange | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.exchange = exchange


class SkippedError(Exception):
    """A check that cannot be made here; the message says why."""


class Check(Struct, frozen=True):
    """One check."""

    id: str
    level: Level
    title: str
    section: str  # the source document, and the place in it
    remedy: str  # how to fix what fails
    run: Callable[[Any], Awaitable[None]]  # gets the program under test; raises UnfitError or SkippedError
    scenarios: Sequence[str] = ()  # that a client is to be seen in


class Outcome(Struct, frozen=True):
    """What came of one check; `reason` is what was expected of a failed one, and why a skipped one was."""

    check: Check
    status: Status
    seconds: float
    reason: str = ""
    exchange: Exchange | None = None


class Report(Struct, frozen=True):
    """The outcomes of a run, in the order of their ids."""

    protocol: str
    subject: str
    outcomes: Sequence[Outcome]

    def of(self, status: Status, level: Level | None = None) -> list[Outcome]:
        """Those with a status, and of a level."""
        return [it for it in self.outcomes if it.status is status and (level is None or it.check.level is level)]

    def without(self, known: frozenset[str]) -> Report:
        """The same, with failures that are known skipped."""
        return Report(self.protocol, self.subject, [_known(it) if it.check.id in known else it for it in self.outcomes])

    @property
    def is_good(self) -> bool:
        """Whether nothing binding has failed."""
        return not self.of(Status.FAILED, Level.MUST)


def _known(outcome: Outcome) -> Outcome:
    if outcome.status is not Status.FAILED:
        return outcome
    return Outcome(outcome.check, Status.SKIPPED, outcome.seconds, f"known: {outcome.reason}", outcome.exchange)


def shown(text: str) -> str:
    """A message as a report has it: bounded."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def ensure(holds: bool, expected: str, exchange: Exchange | None = None) -> None:
    """Raises UnfitError unless something holds."""
    if not holds:
        raise UnfitError(expected, exchange)
