"""How a backend's replicas stand, for metrics and the detailed health."""

from __future__ import annotations

from msgspec import Struct

from gateway.admission.breaker import BreakerState
from gateway.model import JsonObject


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """`failures` are those in a row, `in_flight` calls."""

    name: str
    breaker: BreakerState
    failures: int
    in_flight: int

    @property
    def up(self) -> bool:
        """Whether calls are sent there."""
        return self.breaker == "closed"

    def as_json(self) -> JsonObject:
        return {
            "url": self.name,
            "up": self.up,
            "breaker": self.breaker,
            "failures": self.failures,
            "in_flight": self.in_flight,
        }


class AdmissionStatus(Struct, frozen=True, kw_only=True):
    """`in_flight` are calls under way, `queued` those that wait for one of them to end."""

    in_flight: int
    queued: int
    replicas: tuple[ReplicaStatus, ...]

    @property
    def breaker(self) -> BreakerState:
        """The best of all replicas: while one is closed, the backend takes calls."""
        states = {replica.breaker for replica in self.replicas}
        return "closed" if "closed" in states else "half_open" if "half_open" in states else "open"

    @property
    def up(self) -> bool:
        """Whether calls are sent to any replica."""
        return self.breaker == "closed"

    def as_json(self) -> JsonObject:
        return {
            "in_flight": self.in_flight,
            "queued": self.queued,
            "breaker": self.breaker,
            "replicas": [replica.as_json() for replica in self.replicas],
        }
