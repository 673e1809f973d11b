"""How many calls a backend runs at once, how many wait, and which replica of its tool server gets each.

Knows calls and replicas, but no protocol: its users say what counts as an answer and what as a failure.
"""

from __future__ import annotations

from gateway.upstream.admission.admission import Admission, AdmissionLimits
from gateway.upstream.admission.breaker import BreakerRules
from gateway.upstream.admission.replica import Lease, Replica

__all__ = [
    "Admission",
    "AdmissionLimits",
    "BreakerRules",
    "Lease",
    "Replica",
]
