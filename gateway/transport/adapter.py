"""The pools as an httpx transport, for whatever needs httpx's interface or reads a reply in parts.

`httpx.AsyncClient(transport=HttpTransport())`. Requests are sent whole: a body that comes in parts is collected first.
Of httpx's per-request extensions, `timeout` is honoured, except for `write`: `read` begins when the request is handed
to the socket. `max_body` (bytes) is ours: a larger reply fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

from gateway.transport.connection import Connection
from gateway.transport.errors import Kind, TransportError
from gateway.transport.limits import Limits
from gateway.transport.origin import DEFAULT_PORTS, Origin
from gateway.transport.pool import Pool
from gateway.transport.requesthead import OURS, content_length, encode_head
from gateway.transport.stream import Stream

MAX_ORIGINS = 64  # issuers, token endpoints and tool servers of one configuration; each idle pool costs a few KiB
QUEUE_S = 30.0  # how long to wait for a free connection when the request sets no limit

MEANING: dict[Kind, type[httpx.TransportError]] = {
    Kind.INVALID: httpx.LocalProtocolError,
    Kind.BUSY: httpx.PoolTimeout,
    Kind.CONNECT: httpx.ConnectError,
    Kind.TLS: httpx.ConnectError,
    Kind.PROTOCOL: httpx.RemoteProtocolError,
    Kind.TOO_LARGE: httpx.RemoteProtocolError,
}


class HttpTransport(httpx.AsyncBaseTransport):
    """One pool per origin; when there are too many, the one unused for longest makes room."""

    def __init__(self, limits: Limits | None = None, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._limits = limits if limits is not None else Limits()
        self._ssl_context = ssl_context
        self._pools: OrderedDict[Origin, Pool] = OrderedDict()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        with _as_httpx(httpx.ConnectTimeout):
            data = _encode(request, await request.aread())
            pool = self._pool(_origin(request.url))
        connection = await _acquire(pool, timeouts)
        stream = Stream(
            connection,
            is_head=request.method == "HEAD",
            ahead_bytes=self._limits.stream_bytes,
            max_body=request.extensions.get("max_body"),
        )
        connection.start(stream, data)
        with contextlib.ExitStack() as undo:
            undo.callback(stream.close)
            with _as_httpx(httpx.ReadTimeout):
                status, headers = await stream.head(timeouts.get("read"))
            undo.pop_all()
        return httpx.Response(
            status,
            headers=headers,
            stream=_ReplyBody(stream, timeouts.get("read")),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def aclose(self) -> None:
        """Closes all pools; replies that are still being read break off."""
        pools = list(self._pools.values())
        self._pools.clear()
        await asyncio.gather(*(pool.aclose() for pool in pools))

    def _pool(self, origin: Origin) -> Pool:
        pool = self._pools.get(origin)
        if pool is None:
            self._make_room()
            if origin.is_tls and self._ssl_context is None:
                self._ssl_context = ssl.create_default_context()  # once: it reads hundreds of certificates
            pool = self._pools[origin] = Pool(origin, self._limits, self._ssl_context)
        self._pools.move_to_end(origin)
        return pool

    def _make_room(self) -> None:
        if len(self._pools) < MAX_ORIGINS:
            return
        for origin, pool in self._pools.items():
            if pool.is_unused:
                pool.abort()
                del self._pools[origin]
                return
        raise TransportError(Kind.BUSY, "Too many servers are in use at once.", sent=False)


class _ReplyBody(httpx.AsyncByteStream):
    """The body as httpx reads it."""

    def __init__(self, stream: Stream, timeout_s: float | None) -> None:
        self._stream = stream
        self._timeout_s = timeout_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx(httpx.ReadTimeout):
            while data := await self._stream.read(self._timeout_s):
                yield data

    async def aclose(self) -> None:
        self._stream.close()


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in DEFAULT_PORTS or not url.host:
        raise httpx.UnsupportedProtocol("Only absolute http:// and https:// URLs can be requested.")
    return Origin(url.scheme, url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme])


def _encode(request: httpx.Request, body: bytes) -> bytes:
    """Returns the whole request. Framing is ours, whatever its headers say. Raises INVALID."""
    method = request.method.encode("ascii", "replace")
    headers = [(name, value) for name, value in request.headers.raw if name.lower() not in OURS]
    host = request.headers.get("host", "").encode("latin-1", "replace")
    return encode_head(method, request.url.raw_path, host, (), content_length(method, len(body)), headers) + body


async def _acquire(pool: Pool, timeouts: dict[str, Any]) -> Connection:
    """Waits for another request's connection within `pool`, for a new one within `connect`."""
    if pool.is_full:
        on_timeout: type[httpx.TimeoutException] = httpx.PoolTimeout
        limit_s = timeouts.get("pool")
        limit_s = QUEUE_S if limit_s is None else limit_s
    else:
        on_timeout = httpx.ConnectTimeout
        limit_s = timeouts.get("connect")
        limit_s = pool.limits.connect_timeout_s if limit_s is None else limit_s
    with _as_httpx(on_timeout):
        return await pool.acquire(limit_s)


@contextlib.contextmanager
def _as_httpx(on_timeout: type[httpx.TimeoutException]) -> Iterator[None]:
    """Translates errors; the TransportError, which knows whether anything was sent, stays as their cause."""
    try:
        yield
    except TransportError as exc:
        if exc.kind is Kind.TIMEOUT:
            raise on_timeout(str(exc)) from exc
        if exc.kind is Kind.CLOSED:
            raise (httpx.RemoteProtocolError if exc.sent else httpx.ConnectError)(str(exc)) from exc
        raise MEANING[exc.kind](str(exc)) from exc
