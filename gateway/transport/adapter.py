"""The pools as an httpx transport, for requests that are too rare to be worth a pool of their own.

`httpx.AsyncClient(transport=HttpTransport())`. Requests are sent and replies read whole, each over a connection of its
own. Of httpx's per-request extensions, the `read` timeout bounds the whole exchange; `max_body` (bytes) is ours: a
larger reply fails.
"""

from __future__ import annotations

import ssl

import httpx

from gateway.transport.errors import Kind, TransportError
from gateway.transport.limits import Limits
from gateway.transport.origin import DEFAULT_PORTS, Origin
from gateway.transport.pool import Pool
from gateway.transport.requesthead import OURS

TIMEOUT_S = 30.0  # of a request that sets none
MAX_BODY = 16 * 1024 * 1024  # of a reply to a request that sets none

EXCEPTIONS: dict[Kind, type[httpx.TransportError]] = {
    Kind.INVALID: httpx.LocalProtocolError,
    Kind.BUSY: httpx.PoolTimeout,
    Kind.CONNECT: httpx.ConnectError,
    Kind.TLS: httpx.ConnectError,
    Kind.PROTOCOL: httpx.RemoteProtocolError,
    Kind.TOO_LARGE: httpx.RemoteProtocolError,
}


class HttpTransport(httpx.AsyncBaseTransport):
    """Opens a connection for each request and closes it afterwards."""

    def __init__(self, limits: Limits | None = None, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._limits = limits
        self._ssl_context = ssl_context

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request. Framing is ours, whatever its headers say."""
        body = await request.aread()
        pool = self._open_pool(request.url)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in OURS]
        timeout_s = request.extensions.get("timeout", {}).get("read")
        try:
            reply = await pool.request(
                request.method.encode("ascii", "replace"),
                request.url.raw_path,
                (),
                body,
                more=headers,
                timeout_s=TIMEOUT_S if timeout_s is None else timeout_s,
                max_body=request.extensions.get("max_body", MAX_BODY),
            )
        except TransportError as exc:
            raise _as_httpx(exc) from exc
        finally:
            await pool.aclose()
        return httpx.Response(
            reply.status,
            headers=reply.headers,
            stream=httpx.ByteStream(reply.body),
            extensions={"http_version": b"HTTP/1.1"},
        )

    def _open_pool(self, url: httpx.URL) -> Pool:
        if url.scheme not in DEFAULT_PORTS or not url.host:
            raise httpx.UnsupportedProtocol("Only absolute http:// and https:// URLs can be requested.")
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme])
        if origin.is_tls and self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()  # once: it reads hundreds of certificates
        return Pool(origin, self._limits, self._ssl_context)


def _as_httpx(error: TransportError) -> httpx.TransportError:
    """Returns httpx's exception; the TransportError, which knows whether anything was sent, becomes its cause."""
    match error.kind:
        case Kind.TIMEOUT:
            kind: type[httpx.TransportError] = httpx.ReadTimeout if error.sent else httpx.ConnectTimeout
        case Kind.CLOSED:
            kind = httpx.RemoteProtocolError if error.sent else httpx.ConnectError
        case _:
            kind = EXCEPTIONS[error.kind]
    return kind(str(error))
