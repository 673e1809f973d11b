"""`toolgate usage`: prints who used which tool on which day or in which month."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct
from msgspec.structs import asdict

from gateway.cli import configuration
from gateway.cli.output import FAILED, OK, USAGE, CommandError, complain, count, print_json, say, table
from gateway.core.errors import StateUnavailable
from gateway.settings import Config
from gateway.usage import Ledger, Used

DESCRIPTION = "Prints how often each key or issuer has used each tool, by day, from the counts in Redis."

EPOCH = date(1970, 1, 1)
DAYS = 31  # that are printed unless --since or --month is given
COUNTED = ("calls", "failed", "refused")
MAX_PARALLEL_DAYS = 16  # days that are asked for at the same time


class Line(Struct, frozen=True):
    """One line: the counts of a day, or of a month. `calls` are runs, also those that `failed`."""

    period: str
    account: str
    tool: str
    calls: int
    failed: int
    refused: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configuration.add_option(parser)
    parser.add_argument("--month", action="store_true", help="add up the days of each month")
    parser.add_argument(
        "--since",
        type=_date,
        metavar="DATE",
        help=f"the first day, such as 2026-11-01, in UTC (default: the last {DAYS} days; with --month, all)",
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    if config.usage is None:
        raise CommandError(
            USAGE, f"{arguments.config} does not have calls counted: add `usage: {{}}`, and state.url, where they are."
        )
    since = arguments.since or _default(int(config.usage.keep_s // 86_400), by_month=arguments.month)
    lines = _summed(asyncio.run(_read(config, since)), by_month=arguments.month)
    if arguments.json:
        print_json({"since": since.isoformat(), "usage": [asdict(line) for line in lines]})
    elif lines:
        _print(lines, by_month=arguments.month)
    else:
        complain(f"No calls were counted since {since}.")
    return OK


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a day such as 2026-11-01") from None


def _today() -> date:
    return datetime.now(UTC).date()


def _default(kept_days: int, *, by_month: bool) -> date:
    return _today() - timedelta(days=kept_days if by_month else min(kept_days, DAYS - 1))


async def _read(config: Config, since: date) -> list[tuple[date, Sequence[Used]]]:
    """The counts of each day. Raises CommandError."""
    from gateway.assembly import factories  # with the library for Redis

    days = [since + timedelta(days=number) for number in range((_today() - since).days + 2)]  # clocks differ
    ledger = factories.usage_ledger(config)
    assert ledger is not None  # there are settings for it
    found: list[tuple[date, Sequence[Used]]] = []
    try:
        for first in range(0, len(days), MAX_PARALLEL_DAYS):
            some = days[first : first + MAX_PARALLEL_DAYS]
            found += zip(some, await asyncio.gather(*(_day(ledger, day) for day in some)), strict=True)
    except StateUnavailable as exc:
        raise CommandError(FAILED, f"The counts cannot be read: {exc}.") from exc
    finally:
        await ledger.aclose()
    return found


async def _day(ledger: Ledger, day: date) -> Sequence[Used]:
    return await ledger.read((day - EPOCH).days)


def _summed(days: Iterable[tuple[date, Sequence[Used]]], *, by_month: bool) -> list[Line]:
    """The lines in the order of days, accounts and tools."""
    sums: Counter[tuple[str, str, str, str]] = Counter()
    for day, rows in days:
        period = day.isoformat()[:7] if by_month else day.isoformat()
        for row in rows:
            for what in COUNTED:
                sums[period, row.account, row.tool, what] += getattr(row, what)
    keys = sorted({key[:3] for key in sums})
    return [Line(*key, *(sums[*key, what] for what in COUNTED)) for key in keys]


def _print(lines: Sequence[Line], *, by_month: bool) -> None:
    head = ("MONTH" if by_month else "DAY", "ACCOUNT", "CALLS", "FAILED", "REFUSED", "TOOL")
    rows = [
        (line.period, line.account, str(line.calls), str(line.failed), str(line.refused), line.tool) for line in lines
    ]
    accounts, tools = {line.account for line in lines}, {line.tool for line in lines}
    say(*table(head, rows))
    calls = sum(line.calls for line in lines)
    say("", f"{count(calls, 'call')} of {count(len(tools), 'tool')} by {count(len(accounts), 'account')}")
