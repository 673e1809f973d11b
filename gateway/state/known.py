"""Which names were seen before, of any number of names in the same little memory.

A Bloom filter: no name that was added is ever taken for new, but the fuller it gets, the more new names are taken for
known. That must do no harm to whoever uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

PROBES = 8  # bits per name; at 30 bits of room for each name 1 in 2 million is mistaken, at 15 1 in 1300
PROBE_BYTES = 4


class Known:
    """Remembers each name for `lifetime_s` seconds at least, and for twice that at most.

    Its two generations may take `max_bytes` together; memory that no name has touched yet is not taken.
    """

    def __init__(self, lifetime_s: float, max_bytes: int, clock: Callable[[], float]) -> None:
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._size = max_bytes // 2
        self._young, self._old = bytearray(self._size), bytearray(0)
        self._since = clock()

    def add(self, name: str) -> None:
        self._age()
        for place, bit in self._bits(name):
            self._young[place] |= bit

    def __contains__(self, name: str) -> bool:
        self._age()
        bits = self._bits(name)
        return any(
            all(generation[place] & bit for place, bit in bits) for generation in (self._young, self._old) if generation
        )

    def _age(self) -> None:
        now = self._clock()
        if now - self._since >= self._lifetime_s:
            outlived = now - self._since >= 2 * self._lifetime_s
            self._old = bytearray(0) if outlived else self._young
            self._young, self._since = bytearray(self._size), now

    def _bits(self, name: str) -> list[tuple[int, int]]:
        digest = blake2b(name.encode(), digest_size=PROBES * PROBE_BYTES).digest()
        numbers = memoryview(digest).cast("I")
        return [(number % (8 * self._size) >> 3, 1 << (number & 7)) for number in numbers]
