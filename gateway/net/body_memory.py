"""Counts what bodies and answers hold in memory, in all and per caller, and pauses connections while it is full.

A request's body is counted until its task is over, or that of the call it began, which holds the arguments; an answer
of a tool server while it arrives, and twice from then until it is written; an answer to a caller while the caller does
not read it. Requests are refused when there is no room for them. The answer of a tool that has run is never refused:
its connection is paused until there is room.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
from math import inf
from pathlib import Path
from typing import Any, Protocol

BODIES_SHARE = 2  # bodies of requests get one half, so that the rest is left for the answers to their calls
HOLDER_SHARE = 4  # one caller gets a quarter
ARRIVING = ""  # the holder, in place of a caller, of what arrives from tool servers,
ARRIVED = "\n"  # and of what has arrived and is read and written for its caller
GROWTH_BYTES = 256 * 1024  # of one that goes on: what a socket may bring before it is counted again
COPIES = 2  # of an answer between the two: as it came and as values, then as values and as it goes out
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
APART_BYTES = 128 * 1024  # blocks of this size are mapped separately, and returned to the system when freed
# The members of `struct mallinfo2` in glibc 2.33 and newer (mallinfo(3)).
MALLINFO2 = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
)  # fmt: skip
TRIM_BYTES = 1024 * 1024  # free memory that is kept at the end of the heap
SPARE_BYTES = 16 * 1024 * 1024  # so much more free memory may lie in the heap before it is returned, in 2 to 10 ms
PAGE_BYTES = resource.getpagesize()


class Pausable(Protocol):
    """A body or an answer that is read from a connection."""

    def resume(self) -> None:
        """Called when there is room again."""
        ...


class BodyMemory:
    """The bytes that bodies and answers hold in one process."""

    def __init__(self, limit_bytes: int) -> None:
        self.held = 0
        self.is_full = False  # more is held than the limit, so answers wait
        self.refuses = False  # for so long that answers may wait longer than their calls last: no call is admitted
        self._holders: dict[str, int] = {}
        self._waiting: dict[Pausable, int] = {}  # with what each is counted for
        self._answers: dict[asyncio.Task[Any], int] = {}
        self.limit_bytes = limit_bytes

    def change(self, limit_bytes: int) -> None:
        """Sets another limit."""
        self.limit_bytes = limit_bytes
        self._wake_waiting()

    def fits_share(self, holder: str, size: int) -> bool:
        """Whether one caller may hold `size` more bytes."""
        return self._holders.get(holder, 0) + size <= self.limit_bytes // HOLDER_SHARE

    def fits_bodies(self, size: int) -> bool:
        """Whether bodies of requests may hold `size` more bytes."""
        return self.held + size <= self.limit_bytes // BODIES_SHARE

    def take(self, holder: str, size: int) -> None:
        """Counts bytes that a caller holds, or that are `ARRIVING` from tool servers."""
        self.held += size
        self._holders[holder] = self._holders.get(holder, 0) + size
        self.is_full = self.held > self.limit_bytes

    def give(self, holder: str, size: int) -> None:
        """Stops counting bytes that `take` has counted."""
        self.held -= size
        self._holders[holder] -= size
        if not self._holders[holder]:
            del self._holders[holder]
        self._wake_waiting()

    def keep(self, size: int) -> None:
        """Counts an answer that has arrived, for the current task: until that is over, or has handed it on."""
        task = asyncio.current_task()
        assert task is not None  # answers are awaited
        if task not in self._answers:
            task.add_done_callback(self.hand_on)
        size *= COPIES
        self._answers[task] = self._answers.get(task, 0) + size
        self.take(ARRIVED, size)

    def hand_on(self, task: asyncio.Task[Any] | None) -> None:
        """Stops counting what a task has kept: its caller's connection holds and counts it, or nobody."""
        if task in self._answers:
            self.give(ARRIVED, self._answers.pop(task))

    def must_wait(self, reader: Pausable, size: int = 0) -> bool:
        """Whether there is no room for more of it; if so, its `resume` is called when there is.

        `size` is what it is counted for: as much again is what it takes to read it once it is complete.

        If arriving answers alone hold more than a half, the first of them need not wait: if all waited, none would ever
        end and make room. Otherwise some is held by callers who do not read, and their connections can be closed.
        """
        if not self.is_full:
            return False
        self._waiting[reader] = size
        if not self._is_arriving():
            return True
        first = next(iter(self._waiting))
        if first is reader:
            return False
        first.resume()  # there was too little room for it before
        return True

    def is_short(self) -> bool:
        """Whether it is full, or too full for those that wait, which go on only if there is room for all of them."""
        return (
            self.is_full or self.held + sum(size + GROWTH_BYTES for size in self._waiting.values()) > self.limit_bytes
        )

    def leave(self, reader: Pausable) -> None:
        """Removes it from those that wait: it is complete or broken off."""
        if reader in self._waiting:
            del self._waiting[reader]
            if self._waiting and self._is_arriving():
                next(iter(self._waiting)).resume()

    def _is_arriving(self) -> bool:
        """Whether arriving answers hold more than a half, which together with bodies fills the memory."""
        return self._holders.get(ARRIVING, 0) > self.limit_bytes // BODIES_SHARE

    def _wake_waiting(self) -> None:
        self.is_full = self.held > self.limit_bytes
        self.refuses = self.refuses and self.is_full
        if not self._waiting or self.is_full:
            return
        room = self.limit_bytes - self.held
        for reader, size in list(self._waiting.items()):
            room -= size + GROWTH_BYTES
            if room < 0 or self.is_full:  # not all at once: those that are nearly complete would be so together
                return
            reader.resume()


class _HeapUse(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO2]


class Heap:
    """Returns free memory of the C library's heap to the system, which it does by itself only at the heap's end.

    A single small block in use keeps all that is below it: after a crowd of callers with TLS has left, and after many
    answers at once, most of the heap is free, and the next crowd takes other parts of it.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)
        self._look = getattr(libc, "mallinfo2", None)
        if self._look is not None:
            self._look.restype = _HeapUse
        self._least = inf  # what was resident and not in use when that was least, so that no trimming could change it

    def trim(self) -> None:
        """Returns what is free if it is much more than before. Takes some 0.2 ms to find that it is not."""
        if self._trim is None or self._look is None:
            return
        unused = self._unused_bytes()
        self._least = min(self._least, unused)
        if unused - self._least >= SPARE_BYTES:
            self._trim(0)
            self._least = self._unused_bytes()

    def _unused_bytes(self) -> int:
        """What this process has in memory beside blocks of the heap in use: code and Python's own blocks, too."""
        assert self._look is not None
        resident = int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES  # proc_pid_statm(5)
        in_use: int = self._look().uordblks
        return resident - in_use


def limit_heap() -> None:
    """Has the C library return large blocks to the system as soon as they are freed.

    glibc raises its limit to the largest block ever freed, up to 32 MiB: after one large answer, all others lie in the
    heap, where the smallest block still in use keeps them from being returned. Other C libraries return large blocks
    by themselves.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, APART_BYTES)
        mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
