"""A look at URLs: whether anything answers there, and what it shows to a plain GET."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

from gateway.cli.output import FAILED, USAGE, CommandError
from gateway.core.sse import EventParser
from gateway.core.wire import Headers
from gateway.net.client import Kind, Limits, Origin, Pool, Reply, StreamedReply, TransportError
from gateway.protocols.openapi.document.document import MAX_BYTES
from gateway.protocols.openapi.sources import ACCEPT
from gateway.settings import TlsSettings
from gateway.upstream.replica_url import NAMES_ORIGIN, USER_AGENT, client_context, path_and_query

LOOK_S = 10.0
CONNECT_S = 5.0
EVENT_S = 1.0  # for the first event of a stream
MAX_EVENT_BYTES = 16 * 1024
PRIVATE = "Export SSL_CERT_FILE with the certificate of its authority if your system does not know that."
OLD_MCP = (
    "It is an MCP server over HTTP+SSE, the transport of 2024-11-05, which Toolgate does not speak.",
    "Most such servers also speak streamable HTTP, often at /mcp: try that URL.",
)


class ProbeResponse(NamedTuple):
    """What a URL shows: nothing of a stream of events, which would not end; status 0 for a broken answer.

    `is_silent`: none came at all.
    """

    status: int
    body: bytes = b""
    location: str = ""
    is_silent: bool = False


@asynccontextmanager
async def looking(url: str, token: str = "") -> AsyncIterator[Callable[[str], Awaitable[ProbeResponse]]]:
    """Gives a function that looks at URLs of one origin; `token` proves who asks. Raises CommandError, as that does."""
    try:
        origin = Origin.parse(url)
    except ValueError as exc:
        raise CommandError(USAGE, f"This is not a URL that can be asked: {exc}.") from exc
    credential: Headers = ((b"authorization", f"Bearer {token}".encode()),) if token else ()
    context = client_context(TlsSettings()) if origin.is_tls else None
    pool = Pool(origin, Limits(connections=1, connect_timeout_s=CONNECT_S), context)
    try:
        yield partial(_look, pool, (USER_AGENT, *ACCEPT, *credential))
    finally:
        await pool.aclose()


async def _look(pool: Pool, headers: Headers, url: str) -> ProbeResponse:
    """Raises CommandError where nothing answers, and for the old transport of MCP."""
    target = path_and_query(url)
    try:
        reply = await pool.reply_or_events(b"GET", target, headers, b"", timeout_s=LOOK_S, max_body=MAX_BYTES)
    except TransportError as exc:
        if exc.sent:  # whether it speaks a protocol may show all the same
            return ProbeResponse(0, is_silent=exc.kind is Kind.TIMEOUT)
        where = "" if exc.kind in NAMES_ORIGIN else f"{url}: "
        hints = [PRIVATE] if "certificate" in str(exc) else []
        raise CommandError(FAILED, f"{where}{exc}", *hints) from exc
    if isinstance(reply, Reply):
        return ProbeResponse(reply.status, reply.body, (reply.header(b"location") or b"").decode("latin-1"))
    try:
        await _check_events(reply)
    finally:
        reply.close()
    return ProbeResponse(reply.head.status)


async def _check_events(reply: StreamedReply) -> None:
    """Raises CommandError if a stream begins as that of the old transport (MCP 2024-11-05, HTTP with SSE)."""
    events = EventParser(MAX_EVENT_BYTES)
    with suppress(TimeoutError, TransportError):
        async with asyncio.timeout(EVENT_S):
            async for piece in reply:
                for event in events.feed(piece):
                    if event.type == "endpoint":
                        raise CommandError(FAILED, *OLD_MCP)
                    return
