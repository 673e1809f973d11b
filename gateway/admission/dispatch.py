"""What a call that has to wait asks before it is sent."""

from __future__ import annotations

from typing import Protocol


class NotDispatchedError(Exception):
    """The call ended while it waited, or another process has taken it over: it must not be sent."""


class DispatchGate(Protocol):
    """One call's record, as admission and backends see it. A call that need not wait does not use it.

    `answered`: this process knows the call's outcome, or a consent that it needs.
    """

    @property
    def answered(self) -> bool: ...

    async def on_queued(self) -> None:
        """Records that the call waits. Nothing of it is sent until `before_send` has returned."""
        ...

    async def before_send(self) -> None:
        """Raises NotDispatchedError if the call must not be sent, BACKEND_UNAVAILABLE if that is not known."""
        ...

    async def is_answered(self) -> bool:
        """Whether its outcome, or a consent that it needs, is recorded; the reply to its request is moot then."""
        ...
