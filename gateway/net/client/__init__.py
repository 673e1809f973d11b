"""The outbound HTTP/1.1 transport: keep-alive pools with a truthful answer to "was anything sent?".

Knows sockets and bytes, nothing of tools. `Pool.request` returns a whole reply, `Pool.stream` one that is read while it
arrives.
"""

from __future__ import annotations

from gateway.net.client.errors import Kind, TransportError
from gateway.net.client.events import EventBudget, EventReader
from gateway.net.client.origin import Origin
from gateway.net.client.pool import Limits, Pool
from gateway.net.client.proxies import Proxies, Proxy
from gateway.net.client.replies import Reply, ReplyHead, StreamedReply

__all__ = [
    "EventBudget",
    "EventReader",
    "Kind",
    "Limits",
    "Origin",
    "Pool",
    "Proxies",
    "Proxy",
    "Reply",
    "ReplyHead",
    "StreamedReply",
    "TransportError",
]
