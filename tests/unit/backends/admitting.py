"""The way into a backend under test: its limits, and pools towards its replicas."""

from __future__ import annotations

from typing import Any

from gateway.admission import Admission, AdmissionLimits
from gateway.backends.server import Server
from gateway.transport import Limits, Origin, Pool

PATIENCE_S = 0.3  # running out of time counts against a tool server that had as long


def admission(*urls: str, transport: Limits | None = None, **limits: Any) -> Admission[Server]:
    """Admission to one backend with these replicas."""
    transport = transport or Limits(connect_timeout_s=1.0)
    targets = [(url, Server(url, Pool(Origin.parse(url), transport), PATIENCE_S)) for url in urls]
    return Admission("crm", targets, AdmissionLimits(**limits))
