"""The outcome as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from itertools import groupby
from typing import Any

from tests.bench.calls import CALLED, SMALL
from tests.bench.credentials import CALLERS
from tests.bench.figures import Outcome, Round, Row, Weight, rows, weights
from tests.bench.lineup import MANY_BACKENDS, MANY_ROUTES
from tests.bench.machine import QUIET_CORES, Cores, processor
from tests.bench.rounds import Effort
from tests.bench.subjects import FEW_TOOLS
from tests.bench.verdicts import Line, lines

COLUMNS = ("subject", "conns", "CPU us/call", "(min-max)", "calls/s", "busy", "p50 ms", "p99 ms", "x echo")
DISTRIBUTIONS = ("toolgate-gateway", "uvicorn", "uvloop", "httptools", "msgspec", "pyjwt", "cryptography", "redis")
NAMED = 5  # disturbed rows in the report; all are in the JSON
ROW = "{:<30}{:>6}{:>13}{:>15}{:>10}{:>7}{:>9}{:>9}{:>8}"
MEMORY = "{:<30}{:>10}{:>21}"


def text(outcome: Outcome, effort: Effort, cores: Cores) -> str:
    """The whole report: where and how it was measured, the table, the figures with their limits."""
    table = [ROW.format(*COLUMNS), *map(_table_row, rows(outcome))]
    parts = [table if outcome.rounds else [], _memory(weights(outcome)), *_verdicts(lines(outcome))]
    shown = [line for part in parts if part for line in ("", *part)]
    return "\n".join([*_preamble(outcome, effort, cores), *shown, *_warnings(outcome)])


def document(outcome: Outcome, effort: Effort, cores: Cores) -> dict[str, Any]:
    """The same as JSON, with the samples of every round."""
    return {
        "machine": {"system": platform.platform(), "processor": processor(), "pinned": cores.apart},
        "versions": versions(),
        "effort": asdict(effort),
        "rows": [asdict(row) for row in rows(outcome)],
        "memory": [asdict(weight) for weight in weights(outcome)],
        "lines": [asdict(line) | {"ok": line.ok} for line in lines(outcome)],
        "rounds": list(map(_round, outcome.rounds)),
        "waiting": outcome.waiting and asdict(outcome.waiting),
        "waiting_callbacks": outcome.waiting_callbacks and asdict(outcome.waiting_callbacks),
        "stream": outcome.stream and asdict(outcome.stream),
        "sustained": outcome.sustained and asdict(outcome.sustained),
        "document": outcome.document and asdict(outcome.document),
        "verification_us": outcome.verification_us,
        "left_out": outcome.left_out,
    }


def versions() -> dict[str, str]:
    """Of what is measured, and of what has a say in how fast it is."""
    return {"Python": platform.python_version(), **{name: metadata.version(name) for name in DISTRIBUTIONS}}


def _round(round_: Round) -> dict[str, Any]:
    samples = [{"row": row, "connections": count, **asdict(taken)} for (row, count), taken in round_.samples.items()]
    return {"idle_bytes": round_.idle_bytes, "loaded_bytes": round_.loaded_bytes, "samples": samples}


def _preamble(outcome: Outcome, effort: Effort, cores: Cores) -> Iterator[str]:
    yield f"{platform.platform()}, {os.cpu_count()} cores of {processor()}, loopback"
    yield ", ".join(f"{name} {version}" for name, version in versions().items())
    if cores.apart:
        others = f"callers, tool server and Redis have {_list(cores.others)}"
        yield f"The subject has core {_list(cores.subject)}; {others}."
    else:
        yield "One core only: nothing is pinned, and callers and tool server slow the subject down."
    yield "Servers that are measured are batch processes, which take long turns where several share a core."
    if outcome.rounds:
        yield from _about_rounds(outcome, effort)
    if (steady := outcome.sustained) is not None:
        yield (
            f"Memory growth: over {steady.wall_s:.0f} s with {steady.calls_per_s:,.0f} callback calls/s and "
            f"Redis, after {effort.steady_s[0]:g} s of them; results are kept for {steady.result_ttl_s} s."
        )


def _about_rounds(outcome: Outcome, effort: Effort) -> Iterator[str]:
    yield (
        f"Median of {effort.rounds} rounds, every server started afresh in each; a round measures each load in "
        f"{effort.slices} slices of {effort.slice_s} s, all loads by turns."
    )
    yield (
        f"Calls of {SMALL.body_bytes} bytes from {CALLERS} callers to {CALLED} of {FEW_TOOLS} tools, OTC to OXP "
        f"with HS256; many tools: as many of {effort.many_tools:,}."
    )
    yield (
        f"Many routes: one for each of {MANY_ROUTES:,} tools; many backends: {MANY_BACKENDS}, a tool of each; many "
        f"waiting: {effort.crowd:,} further calls wait meanwhile. What else rows are: docs/measuring.md."
    )
    samples = [sample for round_ in outcome.rounds for sample in round_.samples.values()]
    calm, of_all = sum(sample.calm_slices for sample in samples), sum(sample.slices for sample in samples)
    yield f"Latency is of slices in which no one else had our cores, {calm} of {of_all}; a row without any counts all."
    yield "Busy: the share of its core it used; far below 100 % the callers were the limit, and calls/s is theirs."
    yield from outcome.left_out


def _table_row(row: Row) -> str:
    return ROW.format(
        row.subject,
        row.connections,
        f"{row.cpu_us:.1f}" if row.cpu_us else "",
        f"({row.cpu_us_min:.1f}-{row.cpu_us_max:.1f})" if row.cpu_us else "",
        f"{row.calls_per_s:,.0f}",
        f"{row.busy:.0%}" if row.cpu_us else "",
        f"{row.p50_ms:.2f}",
        f"{row.p99_ms:.2f}",
        "" if row.of_echo is None else f"{row.of_echo:.2f}",
    )


def _memory(found: Sequence[Weight]) -> list[str]:
    """A table of what each subject holds, by the names that `--only` takes."""
    heading = [MEMORY.format("memory", "idle, MB", "after its calls, MB")] if found else []
    return heading + [MEMORY.format(each.subject, f"{each.idle_mb:.0f}", f"{each.loaded_mb:.0f}") for each in found]


def _verdicts(found: Sequence[Line]) -> Iterator[list[str]]:
    """The lines of each group; ratios are of CPU time unless they say otherwise."""
    for group, members in groupby(found, key=lambda line: line.group):
        heading = f"{group.capitalize()} (ratios are of CPU time a call, where nothing else is said)"
        yield [heading, *map(_verdict, members)]


def _verdict(line: Line) -> str:
    spread = "" if line.lowest is None else f"({line.lowest:.2f}-{line.highest:.2f})"
    measured = f"  {line.what:<52}{line.measured:>9.2f} {line.unit:<2} {spread:<16}"
    if line.limit is None:
        return measured.rstrip()
    bound = "least" if line.at_least else "most"
    return f"{measured} limit: at {bound} {line.limit:g} {line.unit:<2} {'ok' if line.ok else 'OVER'}"


def _warnings(outcome: Outcome) -> Iterator[str]:
    """The rows that were disturbed most, if any."""
    noisy = sorted((row for row in rows(outcome) if row.noisy_slices), key=lambda row: -row.noisy_slices)
    if noisy:
        of_all = f"{len(noisy)} of {len(rows(outcome))} rows"
        yield ""
        yield f"The machine was not quiet: other processes used more than {QUIET_CORES} cores in slices of {of_all}."
        for row in noisy[:NAMED]:
            yield f"  {row.subject}, {row.connections} connections: {row.noisy_slices} of {row.slices}"


def _list(cores: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
