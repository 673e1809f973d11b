"""The state of a backend's replicas and queue, for metrics and the detailed health."""

from __future__ import annotations

from msgspec import Struct

from gateway.admission.breaker import BreakerState
from gateway.model import JsonObject

MAX_SHOWN = 20  # tools that are named for each replica; a list for people to read
MAX_NAME = 256  # characters of a name, which a tool server chooses


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """`failures` in a row; `in_flight` calls; `tools_shut`: tools that get no calls, by the tool server's names."""

    name: str
    breaker: BreakerState
    failures: int
    in_flight: int
    tools_shut: tuple[str, ...] = ()

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
            "tools_shut": {
                "count": len(self.tools_shut),
                "first": [tool[:MAX_NAME] for tool in self.tools_shut[:MAX_SHOWN]],
            },
        }


class AdmissionStatus(Struct, frozen=True, kw_only=True):
    """`in_flight` calls are under way, `queued` calls wait for one of them to end."""

    in_flight: int
    queued: int
    replicas: tuple[ReplicaStatus, ...]

    @property
    def breaker(self) -> BreakerState:
        """The best state of all replicas: while one is closed, the backend takes calls."""
        states = {replica.breaker for replica in self.replicas}
        return "closed" if "closed" in states else "half_open" if "half_open" in states else "open"

    @property
    def up(self) -> bool:
        """Whether calls are sent to any replica."""
        return self.breaker == "closed"

    @property
    def tools_shut(self) -> int:
        """How many tools get no calls at any replica, although a replica is up."""
        up = [set(replica.tools_shut) for replica in self.replicas if replica.up]
        return len(set.intersection(*up)) if up else 0

    def as_json(self) -> JsonObject:
        return {
            "in_flight": self.in_flight,
            "queued": self.queued,
            "breaker": self.breaker,
            "replicas": [replica.as_json() for replica in self.replicas],
        }
