"""Looks at authorization challenges: those at the same challenge share an answer, and few are under way at once.

A challenge link needs no credential, and each look asks the tool server, or the store of calls: links must not become a
way to cause load there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

from gateway.challenges import Challenge, ServerChallenge

SHARED_S = 1.0  # clients look once a second; a consent that shows a second later does no harm
AT_ONCE = 8  # at one backend: half of the connections that it has besides those of calls
MAX_SHARED = 1024  # answers held, with a check_url of 2 KiB at the most each
PENDING = "pending"


def digest(challenge: Challenge) -> str:
    """A short name of a challenge, to count by."""
    asked = challenge.check_url if isinstance(challenge, ServerChallenge) else challenge.key
    return blake2b(f"{challenge.backend}\n{asked}".encode(), digest_size=16).hexdigest()


class Looks:
    """`ask` finds out how a challenge stands: `pending`, `completed` or `failed`. `clock` is in seconds."""

    def __init__(self, ask: Callable[[Challenge], Awaitable[str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._answers: OrderedDict[Challenge, tuple[str, float]] = OrderedDict()  # and when it was given
        self._under_way: dict[Challenge, asyncio.Task[str]] = {}
        self._counts: Counter[str] = Counter()  # of those under way, by backend

    async def status(self, challenge: Challenge) -> str:
        """How a challenge stands, or stood within the last second.

        With too many looks at other challenges under way, this is the last answer; without one, `pending`.
        """
        answer, given_at = self._answers.get(challenge, (PENDING, -SHARED_S))
        if self._clock() < given_at + SHARED_S:
            return answer
        look = self._under_way.get(challenge)
        if look is None:
            if self._counts[challenge.backend] >= AT_ONCE:
                return answer
            look = self._begin(challenge)
        return await asyncio.shield(look)  # a caller who leaves does not end it for others

    async def aclose(self) -> None:
        """Ends the looks under way."""
        under_way = list(self._under_way.values())
        for look in under_way:
            look.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _begin(self, challenge: Challenge) -> asyncio.Task[str]:
        look = asyncio.get_running_loop().create_task(self._look(challenge))
        self._under_way[challenge] = look
        self._counts[challenge.backend] += 1
        look.add_done_callback(lambda _: self._end(challenge))
        return look

    async def _look(self, challenge: Challenge) -> str:
        status = await self._ask(challenge)
        self._answers[challenge] = status, self._clock()
        self._answers.move_to_end(challenge)
        while len(self._answers) > MAX_SHARED:
            self._answers.popitem(last=False)
        return status

    def _end(self, challenge: Challenge) -> None:
        look = self._under_way.pop(challenge)
        if not look.cancelled():
            look.exception()  # those who wait for it get it
        self._counts[challenge.backend] -= 1
        if not self._counts[challenge.backend]:
            del self._counts[challenge.backend]
