"""One call's place at a backend, and the replica it was given to."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from gateway.admission.breaker import Breaker

T = TypeVar("T")


class Replica(Generic[T]):
    """One of several servers that do the same. `target` is how it is reached, `name` what operators know it by."""

    __slots__ = ("breaker", "in_flight", "name", "target")

    def __init__(self, name: str, target: T, breaker: Breaker) -> None:
        self.name = name
        self.target = target
        self.breaker = breaker
        self.in_flight = 0


class Lease(Struct, Generic[T]):
    """A call that was admitted. `answered` tells the breaker how it went; None says nothing about the replica.

    A Struct because one is made for every call, and this is the cheapest object there is.
    """

    replica: Replica[T]
    since: int  # the generation of the breaker
    answered: bool | None = None
    reason: str = ""  # of a failure, for the log
    tried: tuple[Replica[T], ...] = ()  # those that could not be reached

    def failed(self, reason: str) -> None:
        """The replica failed: it cannot be reached, was too slow, or answered nonsense."""
        self.answered = False
        self.reason = reason
