"""A gate that records what admission and backends call, and may refuse the call or know its outcome."""

from __future__ import annotations

from gateway.core.ports import NotDispatchedError


class RecordingGate:
    """`events` are its calls in order; `answered`: the outcome has come by another way."""

    def __init__(self, failure: Exception | None = None, *, answered: bool = False) -> None:
        self.events: list[str] = []
        self.answered = answered
        self._failure = failure

    async def on_queued(self) -> None:
        self.events.append("queued")

    async def before_send(self) -> None:
        self.events.append("sent")
        if self._failure is not None:
            raise self._failure

    async def is_answered(self) -> bool:
        return self.answered


def refusing() -> RecordingGate:
    """The gate of a call that must not be sent any more."""
    return RecordingGate(NotDispatchedError())
