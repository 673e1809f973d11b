"""Counts the calls of this process for whom they are, and writes the counts every few seconds."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TypeAlias

from gateway.core.errors import StateUnavailable
from gateway.usage.ledger import OTHER, Kind, Ledger, Row

log = logging.getLogger("gateway.usage")

MAX_ROWS = 20_000  # counted here and not written yet; 4 MB
ROWS_PER_WRITE = 500  # rows of one write: about a millisecond of Redis
LAST_WRITE_S = 5.0  # for the last counts, when the process ends
DAY_S = 86_400
KINDS: Mapping[str, Kind] = {"ok": "ok", "refused": "refused", "invalid": "refused"}  # all other outcomes: failed

Key = tuple[int, str, str, Kind]  # the day since 1970, account, tool, how it ended
CountCall: TypeAlias = Callable[[str, str, str, float, str], None]  # as `Metrics.tool_call`


class UsageRecorder:
    """Counts runs of tools and refused calls, and adds them to the ledger every `flush_s`.

    What cannot be written is kept, within
    bounds, and written when that is possible again.
    """

    def __init__(self, ledger: Ledger, *, flush_s: float, clock: Callable[[], float]) -> None:
        self._accounts: Collection[str] = ()
        self._ledger = ledger
        self._flush_s = flush_s
        self._clock = clock
        self._writer = os.urandom(8).hex()
        self._sequence = 0
        self._counts: dict[Key, int] = {}
        self._writing: deque[tuple[int, int, Sequence[Row]]] = deque()  # sequence numbers, days, rows
        self._task: asyncio.Task[None] | None = None
        self._is_away = False

    def use_accounts(self, accounts: Collection[str]) -> None:
        """Sets the names that may be counted; all others together are one."""
        self._accounts = accounts

    def beside(self, count: CountCall) -> CountCall:
        """Makes a function that counts a call by `count`, and here as well."""

        def both(backend: str, tool: str, outcome: str, tool_s: float, account: str) -> None:
            count(backend, tool, outcome, tool_s, account)
            self.count(tool, outcome, account)

        return both

    def count(self, tool: str, outcome: str, account: str) -> None:
        """Counts a run of a tool by its outcome, or a call that was refused one."""
        key = int(self._clock()) // DAY_S, account, tool, KINDS.get(outcome, "failed")
        if key not in self._counts:
            key = self._bounded(*key)
        self._counts[key] = self._counts.get(key, 0) + 1

    def _bounded(self, day: int, account: str, tool: str, kind: Kind) -> Key:
        name = account if account in self._accounts else OTHER
        return day, name, tool if len(self._counts) < MAX_ROWS else OTHER, kind

    async def start(self) -> None:
        """Begins to write in the background."""
        self._task = asyncio.create_task(self._write_on())

    async def aclose(self) -> None:
        """Writes what was counted last, and closes the ledger."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITE_S):
                await self.flush()  # what could not be written before
                await self.flush()
        self._collect()
        if calls := sum(row[-1] for _, _, rows in self._writing for row in rows):
            log.warning("usage could not be written and is lost", extra={"calls": calls})
        await self._ledger.aclose()

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(self._flush_s)
            await self.flush()

    async def flush(self) -> None:
        """Writes what was counted, as far as Redis takes it."""
        if not self._writing:
            self._collect()
        try:
            while self._writing:
                await self._ledger.add(self._writer, *self._writing[0])
                self._writing.popleft()
        except StateUnavailable as exc:
            if not self._is_away:
                log.warning("usage cannot be written", extra={"reason": str(exc)})
            self._is_away = True
        else:
            if self._is_away:
                log.info("usage is written again")
            self._is_away = False

    def _collect(self) -> None:
        """Makes writes of what was counted."""
        counts, self._counts = self._counts, {}
        for day, items in groupby(sorted(counts.items()), lambda item: item[0][0]):
            rows: list[Row] = [(account, tool, kind, number) for (_, account, tool, kind), number in items]
            for first in range(0, len(rows), ROWS_PER_WRITE):
                self._sequence += 1
                self._writing.append((self._sequence, day, rows[first : first + ROWS_PER_WRITE]))
