"""Which calls a backend takes on, how many at once, and which replica of its tool server gets them.

Knows of calls and replicas, nothing of protocols: whoever uses it says what was an answer and what a failure.
"""

from __future__ import annotations

from gateway.admission.breaker import BreakerRules
from gateway.admission.dispatch import DispatchGate, NotDispatchedError
from gateway.admission.entrance import Admission, AdmissionLimits
from gateway.admission.lease import Lease, Replica

__all__ = [
    "Admission",
    "AdmissionLimits",
    "BreakerRules",
    "DispatchGate",
    "Lease",
    "NotDispatchedError",
    "Replica",
]
