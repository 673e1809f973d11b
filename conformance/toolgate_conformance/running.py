"""Runs checks one after the other, each with its own limit of time; nothing a program does ends the run."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolgate_conformance.checks import Check, Outcome, Report, SkippedError, Status, UnfitError

LIMIT_S = 60.0  # for one check; a call may take a tool server some seconds
ID = re.compile(r"[A-Z]+-[0-9]{3}")


def chosen(checks: Sequence[Check], only: Sequence[str]) -> list[Check]:
    """The checks whose ids, levels or titles fit one of some patterns, such as `OXP-01?` or `MUST`; all without any."""
    wanted = [pattern.lower() for pattern in only]

    def fits(check: Check) -> bool:
        names = (check.id.lower(), check.level.lower())
        return any(fnmatchcase(name, pattern) for pattern in wanted for name in names)

    return [check for check in checks if not wanted or fits(check)]


async def run(
    protocol: str,
    subject: str,
    checks: Iterable[Check],
    target: Any,
    *,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    limit_s: float = LIMIT_S,
) -> Report:
    """Runs checks against a target; `on_outcome` is told each as it comes."""
    outcomes = []
    for check in checks:
        outcome = await _run_one(check, target, limit_s)
        on_outcome(outcome)
        outcomes.append(outcome)
    return Report(protocol, subject, outcomes)


async def _run_one(check: Check, target: Any, limit_s: float) -> Outcome:
    began = time.perf_counter()

    def outcome(status: Status, reason: str = "", unfit: UnfitError | None = None) -> Outcome:
        return Outcome(check, status, time.perf_counter() - began, reason, None if unfit is None else unfit.exchange)

    try:
        async with asyncio.timeout(limit_s):
            await check.run(target)
    except UnfitError as unfit:
        return outcome(Status.FAILED, unfit.expected, unfit)
    except SkippedError as skipped:
        return outcome(Status.SKIPPED, str(skipped))
    except TimeoutError:
        return outcome(Status.FAILED, f"An answer within {limit_s:g} s.")
    except Exception as exc:  # what a program sends may be anything, and may trip a check that did not foresee it
        return outcome(Status.FAILED, f"An answer of the form that is specified ({type(exc).__name__}: {exc}).")
    return outcome(Status.PASSED)
