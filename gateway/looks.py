"""Looks at authorization challenges: shared by all who look at the same one, and few at once.

A challenge link needs no credential, and each look asks the tool server, or the store of calls. So that nobody can turn
links into load, looks at one challenge share an answer, and those under way at one backend are bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

SHARED_S = 1.0  # clients look once a second; nobody notices that a consent shows a second later
AT_ONCE = 8  # at one backend: half of the connections that it has besides those of calls
MAX_SHARED = 1024  # answers held, with a check_url of 2 KiB at the most each
PENDING = "pending"

Challenge = tuple[str, str]  # the backend's name and the check_url


def digest(challenge: Challenge) -> str:
    """A short name of a challenge, to count by."""
    return blake2b("\n".join(challenge).encode(), digest_size=16).hexdigest()


class Looks:
    """`ask` finds out how a challenge stands: `pending`, `completed` or `failed`. `clock` is in seconds."""

    def __init__(self, ask: Callable[[str, str], Awaitable[str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._answers: OrderedDict[Challenge, tuple[str, float]] = OrderedDict()  # and when it was given
        self._under_way: dict[Challenge, asyncio.Task[str]] = {}
        self._counts: Counter[str] = Counter()  # of those under way, by backend

    async def status(self, backend: str, check_url: str) -> str:
        """How a challenge stands, or stood within the last second.

        With too many looks at other challenges under way, the last answer is told again; without one, `pending`.
        """
        challenge = backend, check_url
        answer, given_at = self._answers.get(challenge, (PENDING, -SHARED_S))
        if self._clock() < given_at + SHARED_S:
            return answer
        look = self._under_way.get(challenge)
        if look is None:
            if self._counts[backend] >= AT_ONCE:
                return answer
            look = self._begin(challenge)
        return await asyncio.shield(look)  # whoever leaves ends it for nobody else

    async def aclose(self) -> None:
        """Ends the looks under way."""
        under_way = list(self._under_way.values())
        for look in under_way:
            look.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _begin(self, challenge: Challenge) -> asyncio.Task[str]:
        look = asyncio.get_running_loop().create_task(self._look(challenge))
        self._under_way[challenge] = look
        self._counts[challenge[0]] += 1
        look.add_done_callback(lambda _: self._end(challenge))
        return look

    async def _look(self, challenge: Challenge) -> str:
        status = await self._ask(*challenge)
        self._answers[challenge] = status, self._clock()
        self._answers.move_to_end(challenge)
        while len(self._answers) > MAX_SHARED:
            self._answers.popitem(last=False)
        return status

    def _end(self, challenge: Challenge) -> None:
        look = self._under_way.pop(challenge)
        if not look.cancelled():
            look.exception()  # everybody who looked has got it, or has left
        backend = challenge[0]
        self._counts[backend] -= 1
        if not self._counts[backend]:
            del self._counts[backend]
