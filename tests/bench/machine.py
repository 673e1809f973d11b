"""What the operating system says: cores, CPU time and memory of a process tree, and who else is busy.

Everything comes from /proc (proc(5)), so the benchmark runs on Linux only.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.25  # other processes using more than this distort a round visibly
CPUCLOCK_SCHED = 2  # linux/posix-timers.h


class BenchError(Exception):
    """The benchmark cannot go on, and why."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores the subject has for itself, and which the load and the tool server share."""

    subject: frozenset[int]
    others: frozenset[int]

    @classmethod
    def choose(cls) -> Cores:
        """The first core for the subject, all others for the rest; with one core nothing can be kept apart."""
        first, *rest = sorted(os.sched_getaffinity(0))
        return cls(frozenset({first}), frozenset(rest or [first]))

    @property
    def apart(self) -> bool:
        return not self.subject & self.others


def processor() -> str:
    """What the processor calls itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Runs on `cores` meanwhile. A child started here inherits it with every thread it will ever have."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_open_files() -> int:
    """Raises the limit of open files as far as it goes, for us and our children, and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def process_tree(root: int) -> list[int]:
    """`root` and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, ()))
    return tree


def cpu_s(root: int) -> float:
    """CPU time of the whole process tree so far: user and system, all threads, ended children included."""
    ticks = 0
    for pid in process_tree(root):
        ticks += sum(map(int, _stat(pid)[11:15]))
    return ticks / TICKS_PER_S


class CpuClock:
    """CPU time of a process tree, to the microsecond; of the processes that live now, which servers stay the same."""

    def __init__(self, root: int) -> None:
        # clock_getcpuclockid(3), which Python lacks: the kernel's number for the clock of a whole process.
        self._clocks = [(~pid << 3) | CPUCLOCK_SCHED for pid in process_tree(root)]

    def now_s(self) -> float:
        return sum(map(time.clock_gettime, self._clocks))


def rss_bytes(root: int) -> int:
    """Resident memory of the process tree. The rollup is exact where the counters of `statm` lag behind."""
    return sum(map(own_rss_bytes, process_tree(root)))


def own_rss_bytes(pid: int) -> int:
    """That of one process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when the process is gone."""
    try:
        # The command name may hold spaces and parentheses; the last parenthesis ends it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


class OtherLoad:
    """Measures, from its making on, how much CPU processes other than ours use, also on other machines of this host."""

    def __init__(self) -> None:
        self._wall, (self._foreign, self._stolen) = time.monotonic(), self._spent_s()

    def taken(self) -> tuple[float, float]:
        """The cores they kept busy on average; and for how many seconds a core was given to another machine."""
        foreign, stolen = self._spent_s()
        # Never below 0, where the two clocks round apart.
        return max(0.0, (foreign - self._foreign) / (time.monotonic() - self._wall)), stolen - self._stolen

    @staticmethod
    def _spent_s() -> tuple[float, float]:
        ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _, _, _, _, steal, *_ = map(int, ticks)
        return (user + nice + system + steal) / TICKS_PER_S - cpu_s(os.getpid()), steal / TICKS_PER_S
