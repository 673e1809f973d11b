"""What a callback tool server offers, and where it may send us: its toolset (RAP, Toolsets) and the URLs it names."""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import Mapping
from urllib.parse import urlsplit

from gateway import jsontext
from gateway.backends.credentials import Credentials
from gateway.backends.http import LIST_TIMEOUT_S, MAX_LIST_BYTES
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects import callback_toolset
from gateway.errors import unavailable
from gateway.transport import Origin, Pool, TransportError


async def ask_for_toolset(server: Server, credentials: Credentials) -> callback_toolset.Toolset:
    """Raises BACKEND_UNAVAILABLE; ToolsetError for a toolset that is not valid."""
    request = callback_toolset.request_toolset()
    headers = (USER_AGENT, *request.headers, *credentials.headers("anonymous"))
    try:
        reply = await server.pool.request(
            request.method,
            server.target(request.path),
            headers,
            b"",
            timeout_s=LIST_TIMEOUT_S,
            max_body=MAX_LIST_BYTES,
        )
        if not 200 <= reply.status < 300:
            raise unavailable(f"its answer has status {reply.status}")
        text = reply.body.removeprefix(BOM_UTF8)
        document = await asyncio.to_thread(jsontext.decode, text)  # may take seconds, and so may the next
        return await asyncio.to_thread(callback_toolset.decode_toolset, document)
    except TransportError as exc:
        raise unavailable(f"{exc.kind}: {exc}") from exc
    except jsontext.JsonError as exc:
        raise unavailable(str(exc)) from exc


def place_of(url: str, pools: Mapping[Origin, Pool]) -> tuple[Pool, bytes] | None:
    """Where a URL leads that the tool server has named; None where we do not go."""
    try:
        pool = pools[Origin.parse(url)]
    except (ValueError, KeyError):
        return None
    parts = urlsplit(url)
    return pool, ((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode("ascii")
