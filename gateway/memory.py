"""What bodies and answers hold in memory: how much in all and for each caller, and what has to wait for room.

A body is counted from its arrival until its request is over, for its call holds its arguments that long; an answer of a
tool server while it arrives; an answer to a caller while the caller does not read it. Requests are refused when there
is no room for them. What belongs to a tool that has run never is: it is left to the kernel until there is room again,
and so slows its sender down.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

BODIES_SHARE = 2  # bodies of requests get one half of all, so that the rest is left to the answers of their calls
HOLDER_SHARE = 4  # one caller gets a quarter of all
ARRIVING = ""  # in place of a caller
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
APART_BYTES = 128 * 1024  # from this size on, memory is mapped apart and given back when it is freed
MUCH_BYTES = 32 * 1024 * 1024  # of bodies and answers; less does not leave much behind
LIBC = ctypes.CDLL(None)
TRIM_BYTES = 1024 * 1024  # so much free memory is kept at the end of the heap


class Growing(Protocol):
    """A body or an answer that is read from a connection."""

    def go_on(self) -> None:
        """There is room again."""
        ...


class BodyMemory:
    """The bytes that bodies and answers of one process hold.

    `is_full` while they are more than the limit: then answers wait. `refuses` once that has gone on for so long that
    answers may have to wait for longer than their calls have: then no more calls should be taken.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.held = self.peak = 0
        self.is_full = self.refuses = False
        self._holders: dict[str, int] = {}
        self._waiting: dict[Growing, None] = {}
        self.limit_bytes = limit_bytes

    def change(self, limit_bytes: int) -> None:
        """Goes by another limit."""
        self.limit_bytes = limit_bytes
        self._look()

    def fits_share(self, holder: str, size: int) -> bool:
        """Whether one caller may hold so much more."""
        return self._holders.get(holder, 0) + size <= self.limit_bytes // HOLDER_SHARE

    def fits_bodies(self, size: int) -> bool:
        """Whether bodies of requests may hold so much more."""
        return self.held + size <= self.limit_bytes // BODIES_SHARE

    def take(self, holder: str, size: int) -> None:
        """Counts bytes that are held for a caller, or that are `ARRIVING` from tool servers."""
        self.held += size
        self._holders[holder] = self._holders.get(holder, 0) + size
        self.is_full = self.held > self.limit_bytes
        if self.held > self.peak:
            self.peak = self.held

    def give(self, holder: str, size: int) -> None:
        """Counts them no more."""
        self.held -= size
        self._holders[holder] -= size
        if not self._holders[holder]:
            del self._holders[holder]
        self._look()

    def must_wait(self, one: Growing) -> bool:
        """Whether there is no room for more of it. Then it goes on when there is.

        Where what arrives alone holds more than a half, the first of it may go on at once: if all waited, none would
        ever end and make room. Else some is held by callers who do not read, and can be taken from them.
        """
        if not self.is_full:
            return False
        self._waiting[one] = None
        return next(iter(self._waiting)) is not one or not self._is_arriving()

    def leave(self, one: Growing) -> None:
        """It is whole, or will never be."""
        if one in self._waiting:
            del self._waiting[one]
            if self._waiting and self._is_arriving():
                next(iter(self._waiting)).go_on()

    def _is_arriving(self) -> bool:
        """Whether answers that are arriving hold so much that, bodies having a half at most, they alone may fill it."""
        return self._holders.get(ARRIVING, 0) > self.limit_bytes // BODIES_SHARE

    def give_back(self) -> None:
        """Has the C library give back what is left between blocks in use, once most of a lot has become free."""
        if self.peak >= MUCH_BYTES and self.held <= self.peak // 4:
            self.peak = self.held
            if (malloc_trim := getattr(LIBC, "malloc_trim", None)) is not None:
                malloc_trim(0)  # 5 ms for 150 MB

    def _look(self) -> None:
        self.is_full = self.held > self.limit_bytes
        self.refuses = self.refuses and self.is_full
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.go_on()


def give_back_freed() -> None:
    """Has the C library give large blocks back to the system as soon as they are freed.

    glibc moves its limits up to the largest block that was ever freed, 32 MiB at the most: after one large answer, all
    others lie in the heap, and stay there behind the smallest block that is still in use. Other C libraries give
    large blocks back by themselves.
    """
    if (mallopt := getattr(LIBC, "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, APART_BYTES)
        mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
