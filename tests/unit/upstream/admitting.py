"""What a backend under test is made of: its settings, its admission, and pools towards its replicas."""

from __future__ import annotations

import json
from typing import Any

from gateway.net.client import Limits, Origin, Pool
from gateway.offload import ChildTasks
from gateway.settings.load import read
from gateway.upstream.admission import Admission, AdmissionLimits
from gateway.upstream.replica_url import BackendContext, Server

PATIENCE_S = 0.3  # running out of time counts against a tool server that had as long


def admission(*urls: str, transport: Limits | None = None, **limits: Any) -> Admission[Server]:
    """Admission to one backend with these replicas."""
    transport = transport or Limits(connect_timeout_s=1.0)
    targets = [(url, Server(url, Pool(Origin.parse(url), transport), PATIENCE_S)) for url in urls]
    return Admission("crm", targets, AdmissionLimits(**limits))


def settings_of(protocol: str, url: str, **keys: Any) -> Any:
    """The settings of a backend, by the keys that a file would have; those that are None are left out."""
    backend = {"protocol": protocol, "url": url} | {key: value for key, value in keys.items() if value is not None}
    config = {"auth": "none", "backends": {"b": backend}, "routes": [{"tools": "*", "backend": "b"}]}
    return read(json.dumps(config)).backends["b"]


def context_of(
    admission: Admission[Server],
    *,
    outcomes: Any = None,
    offload: ChildTasks | None = None,
    on_change: Any = lambda: None,
    pending_s: float = 60.0,
    count_dropped: Any = lambda: None,
) -> BackendContext:
    """What a backend is given; without an `offload`, no process reads anything long."""
    offload = offload or ChildTasks(memory_bytes=0)
    return BackendContext(admission, outcomes, offload, offload, on_change, pending_s, count_dropped)
