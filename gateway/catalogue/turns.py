"""Long work on the event loop, cut into turns."""

from __future__ import annotations

import asyncio

TURN_S = 0.005  # of work between two looks at the event loop: no call waits noticeably longer


class Turns:
    """Lets the event loop have a look whenever a turn of work is over."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + TURN_S

    async def give_way(self) -> None:
        """To be called between two pieces of work."""
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + TURN_S
