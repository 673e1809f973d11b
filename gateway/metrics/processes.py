"""What the system says of our processes, in the names that every Prometheus client uses; nothing without a /proc.

It is read when somebody scrapes, and by the process that answers: of workers by their supervisor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.metrics.families import MAX_FDS, OPEN_FDS, PROCESS_CPU, PROCESS_START, RESIDENT, VIRTUAL
from gateway.metrics.store import Series

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")
OPEN_FILES = re.compile(r"^Max open files +(\d+)", re.MULTILINE)
# Fields of /proc/PID/stat (proc(5)), counted from the one behind the name.
USER, SYSTEM, STARTED, VIRTUAL_BYTES, RESIDENT_PAGES = 11, 12, 19, 20, 21


def figures(processes: Mapping[str, int]) -> Iterator[Series]:
    """The figures of processes, each by its name and number; one that has ended has none."""
    for name, pid in processes.items():
        try:
            yield from _figures_of(name, PROC / str(pid))
        except (OSError, IndexError, ValueError):
            continue


def _figures_of(name: str, folder: Path) -> list[Series]:
    fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    values = {
        PROCESS_CPU: (int(fields[USER]) + int(fields[SYSTEM])) / TICKS_PER_S,
        PROCESS_START: _booted_at() + int(fields[STARTED]) / TICKS_PER_S,
        VIRTUAL: float(fields[VIRTUAL_BYTES]),
        RESIDENT: float(fields[RESIDENT_PAGES]) * PAGE_BYTES,
        OPEN_FDS: float(len(os.listdir(folder / "fd"))),
    }
    if (limit := OPEN_FILES.search((folder / "limits").read_text())) is not None:  # it may be "unlimited"
        values[MAX_FDS] = float(limit[1])
    return [Series(family, (name,), (value,)) for family, value in values.items()]


def _booted_at() -> float:
    """When the system was started, in seconds since 1970; it changes when the clock is set."""
    return float((PROC / "stat").read_text().partition("\nbtime ")[2].split(maxsplit=1)[0])
