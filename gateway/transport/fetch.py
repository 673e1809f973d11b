"""Single requests to any URL, for servers that are asked too rarely for a pool of connections."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from gateway.transport.exchange import Reply
from gateway.transport.limits import Limits
from gateway.transport.origin import Origin
from gateway.transport.pool import Pool


class Fetcher:
    """Opens a connection for each request and closes it afterwards. Redirects are not followed."""

    def __init__(self, connect_timeout_s: float = 2.0, ssl_context: ssl.SSLContext | None = None) -> None:
        """`ssl_context` defaults to the system's trusted authorities."""
        self._limits = Limits(connections=1, connect_timeout_s=connect_timeout_s)
        self._ssl_context = ssl_context

    async def request(
        self,
        method: bytes,
        url: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes = b"",
        *,
        timeout_s: float,
        max_body: int,
    ) -> Reply:
        """Sends one request, as `Pool.request` does. Raises TransportError, and ValueError for a URL it cannot use."""
        origin, parts = Origin.parse(url), urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if origin.is_tls and self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()  # once: it reads hundreds of certificates
        pool = Pool(origin, self._limits, self._ssl_context)
        try:
            return await pool.request(
                method, target.encode("ascii"), (), body, more=headers, timeout_s=timeout_s, max_body=max_body
            )
        finally:
            await pool.aclose()
