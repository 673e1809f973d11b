"""What passes between a call on its way to its tool server and whoever remembers it."""

from __future__ import annotations

from typing import Protocol


class NotDispatchedError(Exception):
    """The call has ended while it waited, or somebody else has taken it over: nothing of it may be sent."""


class DispatchGate(Protocol):
    """One call's. A call that finds room at once asks nothing of it.

    `answered`: its outcome has come here, or a consent that it needs.
    """

    @property
    def answered(self) -> bool: ...

    async def waits(self) -> None:
        """The call has to wait. From now until it `goes`, nothing of it is sent."""
        ...

    async def goes(self) -> None:
        """Its turn has come. Raises GivenUpError; BACKEND_UNAVAILABLE if nobody can say whether it may be sent."""
        ...

    async def is_answered(self) -> bool:
        """Whether its outcome has come already, or a consent that it needs: how it was taken does not matter then."""
        ...
