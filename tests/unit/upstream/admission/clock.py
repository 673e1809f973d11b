"""A clock that a test moves, an admission that goes by it, and the short ways to make calls."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.upstream.admission import Admission, AdmissionLimits, BreakerRules, Lease

OPEN_FOR_S = 10.0
TOOL = "Crm.Find@1.0.0"  # where it does not matter which


class Clock:
    """Stands still unless moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def middle(low: float, high: float) -> float:
    """Chance without chance."""
    return (low + high) / 2


def admission(*names: str, clock: Clock, failures: int = 3, **limits: Any) -> Admission[str]:
    """Admission to replicas that are only names."""
    rules = BreakerRules(failures=failures, open_for_s=OPEN_FOR_S)
    targets = [(name, name) for name in names or ("a",)]
    return Admission("crm", targets, AdmissionLimits(breaker=rules, **limits), clock=clock, uniform=middle)


def enter(entrance: Admission[str], tool: str = TOOL) -> Lease[str]:
    lease = entrance.enter(tool)
    assert lease is not None
    return lease


def succeed(entrance: Admission[str], tool: str = TOOL) -> str:
    """One call from beginning to end; returns which replica had it."""
    lease = enter(entrance, tool)
    lease.answered = True
    entrance.leave(lease)
    return lease.replica.name


def refusal(entrance: Admission[str], tool: str = TOOL) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        entrance.enter(tool)
    return caught.value
