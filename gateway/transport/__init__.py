"""The outbound HTTP/1.1 transport: keep-alive pools with a truthful answer to "was anything sent?".

Knows sockets and bytes, nothing of tools. `Pool.request` is the fast way to one origin; `HttpTransport` puts the same
pools under `httpx.AsyncClient`.
"""

from __future__ import annotations

from gateway.transport.adapter import HttpTransport
from gateway.transport.errors import Kind, TransportError
from gateway.transport.exchange import Reply
from gateway.transport.limits import Limits
from gateway.transport.origin import Origin
from gateway.transport.pool import Pool

__all__ = ["HttpTransport", "Kind", "Limits", "Origin", "Pool", "Reply", "TransportError"]
