"""The outbound HTTP/1.1 transport: keep-alive pools with a truthful answer to "was anything sent?".

Knows sockets and bytes, nothing of tools. `Pool.request` returns a whole reply, `Pool.stream` one that is read while it
arrives.
"""

from __future__ import annotations

from gateway.transport.errors import Kind, TransportError
from gateway.transport.events import EventBudget, EventReader
from gateway.transport.origin import Origin
from gateway.transport.pool import Limits, Pool
from gateway.transport.proxies import Proxies, Proxy
from gateway.transport.replies import Head, Reply, StreamedReply

__all__ = [
    "EventBudget",
    "EventReader",
    "Head",
    "Kind",
    "Limits",
    "Origin",
    "Pool",
    "Proxies",
    "Proxy",
    "Reply",
    "StreamedReply",
    "TransportError",
]
