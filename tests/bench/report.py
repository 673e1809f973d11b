"""The outcome as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tests.bench.calls import BODY_BYTES, CALLERS
from tests.bench.crowds import CALLED_TOOLS, FEW_TOOLS
from tests.bench.figures import NGINX_PROXY, Outcome, Round, Row, rows
from tests.bench.machine import QUIET_CORES, Cores
from tests.bench.rounds import Effort
from tests.bench.verdicts import Line, lines

COLUMNS = ("subject", "conns", "CPU us/call", "(min-max)", "calls/s", "busy", "p50 ms", "p99 ms", "x echo", "x nginx")
ROW = "{:<22}{:>6}{:>13}{:>15}{:>10}{:>7}{:>9}{:>9}{:>8}{:>9}"


def text(outcome: Outcome, effort: Effort, cores: Cores) -> str:
    """The whole report: where and how it was measured, the table, what is owed."""
    table = [ROW.format(*COLUMNS), *map(_table_row, rows(outcome))]
    verdicts = list(map(_verdict, lines(outcome)))
    parts = [table if outcome.rounds else [], verdicts]
    shown = [line for part in parts if part for line in ("", *part)]
    return "\n".join([*_preamble(outcome, effort, cores), *shown, *_warnings(outcome)])


def document(outcome: Outcome, effort: Effort, cores: Cores) -> dict[str, Any]:
    """The same as JSON, with the samples of every round."""
    return {
        "machine": {"system": platform.platform(), "python": platform.python_version(), "pinned": cores.apart},
        "effort": asdict(effort),
        "rows": [asdict(row) for row in rows(outcome)],
        "lines": [asdict(line) | {"ok": line.ok} for line in lines(outcome)],
        "rounds": list(map(_round, outcome.rounds)),
        "waiting": outcome.waiting and asdict(outcome.waiting),
        "waiting_callbacks": outcome.waiting_callbacks and asdict(outcome.waiting_callbacks),
        "stream": outcome.stream and asdict(outcome.stream),
        "sustained": outcome.sustained and asdict(outcome.sustained),
    }


def _round(round_: Round) -> dict[str, Any]:
    samples = [{"row": row, "connections": count, **asdict(taken)} for (row, count), taken in round_.samples.items()]
    return {"idle_bytes": round_.idle_bytes, "samples": samples}


def _preamble(outcome: Outcome, effort: Effort, cores: Cores) -> Iterator[str]:
    yield f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, loopback"
    if cores.apart:
        others = f"callers, tool server and Redis have {_list(cores.others)}"
        yield f"The subject has core {_list(cores.subject)}; {others}."
    else:
        yield "One core only: nothing is pinned, and callers and tool server slow the subject down."
    if outcome.rounds:
        yield from _about_rounds(outcome, effort)
    if outcome.waiting is not None:
        yield f"Waiting calls: {outcome.waiting.calls:,} at once, with their callers' and tool server's connections."
    if outcome.waiting_callbacks is not None:
        yield f"Waiting callback calls: {outcome.waiting_callbacks.calls:,} at once, with their callers' connections."
    if (steady := outcome.sustained) is not None:
        yield (
            f"Memory growth: over {steady.wall_s:.0f} s with {steady.calls / steady.wall_s:,.0f} callback calls/s and "
            f"Redis, after {effort.steady_s[0]:g} s of them; results are kept for {steady.result_ttl_s} s."
        )


def _about_rounds(outcome: Outcome, effort: Effort) -> Iterator[str]:
    yield (
        f"Median of {effort.rounds} rounds, every server started afresh in each; a round measures each load in "
        f"{effort.slices} slices of {effort.slice_s} s, all loads by turns."
    )
    yield (
        f"Calls of {BODY_BYTES} bytes from {CALLERS} callers to {CALLED_TOOLS} of {FEW_TOOLS} tools; many tools: as "
        f"many of {effort.many_tools:,}; all called: each of {effort.many_tools:,} in turn."
    )
    yield "Keyed: each call has a call_id of its own. Callback: the tool server posts results; paced: 250 calls/s."
    yield "CPU time is the operating system's for the subject's whole process tree, without Redis."
    yield "Busy: the share of its core it used; far below 100 % the callers were the limit, and calls/s is theirs."
    if not any(row == NGINX_PROXY for row, _ in outcome.rounds[0].samples):
        yield "nginx is not measured: not installed, or not asked for."


def _table_row(row: Row) -> str:
    return ROW.format(
        row.subject,
        row.connections,
        f"{row.cpu_us:.1f}",
        f"({row.cpu_us_min:.1f}-{row.cpu_us_max:.1f})",
        f"{row.calls_per_s:,.0f}",
        f"{row.busy:.0%}",
        f"{row.p50_ms:.2f}",
        f"{row.p99_ms:.2f}",
        _times(row.of_echo),
        _times(row.of_nginx),
    )


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _verdict(line: Line) -> str:
    measured = f"{line.what:<42}{line.measured:>8.2f} {line.unit:<2}"
    if line.owed is None:
        return measured.rstrip()
    bound = "least" if line.at_least else "most"
    return f"{measured} owed: at {bound} {line.owed:g} {line.unit:<2} {'ok' if line.ok else 'OVER'}"


def _warnings(outcome: Outcome) -> Iterator[str]:
    noisy = [row for row in rows(outcome) if row.noisy_slices]
    if noisy:
        yield ""
        yield f"The machine was not quiet. Slices in which other processes used more than {QUIET_CORES} cores:"
        for row in noisy:
            yield f"  {row.subject}, {row.connections} connections: {row.noisy_slices} of {row.slices}"


def _list(cores: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
