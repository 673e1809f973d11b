"""The counts of all processes, in Redis: one hash for each day, in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gateway.redisclient.store import PartitionStore, ScriptOptions, Scripts

SCRIPT = Path(__file__).with_name("script.lua").read_bytes()
OPTIONS = ScriptOptions(max_batch=1)  # operations are large
OTHER = "other"

Kind = Literal["ok", "failed", "refused"]
Row = tuple[str, str, Kind, int]  # account, tool, how it ended, how often


class Used(Struct, frozen=True):
    """What was counted for an account and a tool."""

    account: str
    tool: str
    calls: int  # runs, also those that failed
    failed: int
    refused: int  # calls that did not run


class Ledger:
    """Adds and reads. It closes the store, which should be for nothing else.

    A day is kept for `keep_days`, and has about `max_rows` fields at most: one for each account, tool and kind.
    """

    def __init__(self, store: PartitionStore, *, keep_days: int, max_rows: int) -> None:
        self._store = store
        self._keep_days = keep_days
        self._max_rows = max_rows
        self._scripts: dict[int, Scripts] = {}

    async def add(self, writer: str, sequence: int, day: int, rows: Sequence[Row]) -> None:
        """Adds to a day since 1970, once: a writer's `sequence` grows, and one that was added before is passed over.

        Raises StateUnavailable; the rows may then have been added.
        """
        flat = [member for row in rows for member in row]
        scripts, prefix = self._of(day)
        keys = self._day(prefix, day), f"{prefix}usage:writer:{writer}".encode()
        operation = ("add", sequence, day, self._keep_days, self._max_rows, flat)
        await scripts.ask(*operation, keys=keys, probing=True)

    async def read(self, day: int) -> list[Used]:
        """The counts of a day since 1970, in no order. Raises StateUnavailable."""
        scripts, prefix = self._of(day)
        _, fields = await scripts.ask("read", keys=[self._day(prefix, day)], probing=True)
        by_row: dict[tuple[str, str], dict[str, int]] = {}
        for field, number in zip(fields[::2], fields[1::2], strict=True):
            account, tool, kind = field.decode().rsplit("\0", 2)
            by_row.setdefault((account, tool), {})[kind] = int(number)
        return [
            Used(
                account,
                tool,
                kinds.get("ok", 0) + kinds.get("failed", 0),
                kinds.get("failed", 0),
                kinds.get("refused", 0),
            )
            for (account, tool), kinds in by_row.items()
        ]

    async def aclose(self) -> None:
        for scripts in self._scripts.values():
            await scripts.aclose()
        await self._store.aclose()

    def _of(self, day: int) -> tuple[Scripts, str]:
        """The partition of a day: days spread over all of them."""
        prefixes = self._store.prefixes
        number = day % len(prefixes)
        if number not in self._scripts:
            self._scripts[number] = self._store.scripts(number, SCRIPT, OPTIONS, lambda reason: None)
        return self._scripts[number], prefixes[number]

    @staticmethod
    def _day(prefix: str, day: int) -> bytes:
        return f"{prefix}usage:{day}".encode()
