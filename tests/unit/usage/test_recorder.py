"""What one process counts, and what becomes of it while Redis is away."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.core.errors import StateUnavailable
from gateway.usage.ledger import Row
from gateway.usage.recorder import MAX_ROWS, ROWS_PER_WRITE, UsageRecorder

pytestmark = pytest.mark.anyio

DAY = 20_000


class Noting:
    """A ledger that adds once, answers or not, and can be away."""

    def __init__(self) -> None:
        self.added: Counter[tuple[int, str, str, str]] = Counter()
        self.writes = 0
        self.failure: str = ""  # "away", or "late" if it adds without an answer
        self._last = 0

    async def add(self, writer: str, sequence: int, day: int, rows: Sequence[Row]) -> None:
        self.writes += 1
        if self.failure != "away" and sequence > self._last:
            self._last = sequence
            for account, tool, kind, number in rows:
                self.added[day, account, tool, kind] += number
        if self.failure:
            raise StateUnavailable(self.failure)

    async def aclose(self) -> None:
        pass


class Clock:
    now = DAY * 86_400.0

    def __call__(self) -> float:
        return self.now


def recorder(ledger: Noting, clock: Clock | None = None) -> UsageRecorder:
    whole: Any = ledger
    usage = UsageRecorder(whole, flush_s=0.001, clock=clock or Clock())
    usage.use_accounts({"key:a", "jwt:b"})
    return usage


async def test_calls_are_counted_by_account_tool_and_day() -> None:
    ledger, clock, seen = Noting(), Clock(), []
    usage = recorder(ledger, clock)
    count = usage.beside(lambda *call: seen.append(call))
    for outcome in ("ok", "ok", "tool_error", "timeout", "unknown", "invalid", "refused"):
        count("backend", "Calculator.Add", outcome, 0.1, "key:a")
    usage.count("Calculator.Add", "ok", "jwt:b")
    usage.count("Calculator.Add", "ok", "key:that was removed")
    clock.now += 86_400
    usage.count("Calculator.Add", "ok", "key:a")
    await usage.flush()
    assert dict(ledger.added) == {
        (DAY, "key:a", "Calculator.Add", "ok"): 2,
        (DAY, "key:a", "Calculator.Add", "failed"): 3,
        (DAY, "key:a", "Calculator.Add", "refused"): 2,
        (DAY, "jwt:b", "Calculator.Add", "ok"): 1,
        (DAY, "other", "Calculator.Add", "ok"): 1,
        (DAY + 1, "key:a", "Calculator.Add", "ok"): 1,
    }
    assert len(seen) == 7
    assert seen[0] == ("backend", "Calculator.Add", "ok", 0.1, "key:a")


@pytest.mark.parametrize("failure", ["away", "late"])
async def test_what_could_not_be_written_is_written_later_and_once(
    failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway.usage")
    ledger = Noting()
    usage = recorder(ledger)
    for number in range(ROWS_PER_WRITE + 7):
        usage.count(f"Tool.T{number}", "ok", "key:a")
    ledger.failure = failure
    for _ in range(3):
        await usage.flush()
        usage.count("Tool.T0", "ok", "key:a")
    ledger.failure = ""
    await usage.aclose()
    assert ledger.added.total() == ROWS_PER_WRITE + 7 + 3
    assert [record.message for record in caplog.records] == ["usage cannot be written", "usage is written again"]


async def test_a_process_that_ends_says_what_it_could_not_write(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Noting()
    usage = recorder(ledger)
    await usage.start()
    usage.count("Tool.T", "ok", "key:a")
    while not ledger.writes:  # noqa: ASYNC110 - what it does in the background sets no event
        await asyncio.sleep(0.001)
    ledger.failure = "away"
    usage.count("Tool.T", "ok", "key:a")
    usage.count("Tool.T", "ok", "key:a")
    await usage.aclose()
    (lost,) = [record for record in caplog.records if record.message == "usage could not be written and is lost"]
    assert vars(lost)["calls"] == 2


async def test_however_many_tools_are_called_what_is_counted_here_is_bounded() -> None:
    ledger = Noting()
    usage = recorder(ledger)
    for number in range(MAX_ROWS + 50):
        usage.count(f"Tool.T{number}", "ok", "key:a")
    await usage.flush()
    assert len(ledger.added) == MAX_ROWS + 1
    assert ledger.added[DAY, "key:a", "other", "ok"] == 50
