"""Somebody who is told when a call waits for its turn and when it goes, and who may know of its end by then."""

from __future__ import annotations

from gateway.admission import NotDispatchedError


class Turn:
    """`said` is what it was told, in order; `answered`: what becomes of the call is known by another way."""

    def __init__(self, failure: Exception | None = None, *, answered: bool = False) -> None:
        self.said: list[str] = []
        self.answered = answered
        self._failure = failure

    async def waits(self) -> None:
        self.said.append("waits")

    async def goes(self) -> None:
        self.said.append("goes")
        if self._failure is not None:
            raise self._failure

    async def is_answered(self) -> bool:
        return self.answered


def given_up() -> Turn:
    """That of a call that must not be sent any more."""
    return Turn(NotDispatchedError())
