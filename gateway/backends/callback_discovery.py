"""What a callback tool server offers, and where it may send us: its toolset (RAP, Toolsets) and the URLs it names."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from urllib.parse import urlsplit

from gateway.backends.credentials import Credentials
from gateway.backends.http import LIST_TIMEOUT_S, MAX_LIST_BYTES
from gateway.backends.http_listing import Terms, decode_tools, digest_of, read_apart
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects import callback_toolset, listings, toolset_listing
from gateway.dialects.toolset_listing import read_toolset
from gateway.errors import unavailable
from gateway.jsontext import encode
from gateway.model import Listing
from gateway.offload.tasks import READ_TOOLSET
from gateway.transport import Origin, Pool, TransportError


class ToolsetReader:
    """Asks one callback server for its toolset, and reads what has changed."""

    def __init__(self, backend: str, server: Server, credentials: Credentials, terms: Terms) -> None:
        self._backend = backend
        self._server = server
        self._credentials = credentials
        self._offload = terms.offload
        self._bounds = encode(
            listings.Terms(
                backend=backend,
                toolkit=backend,
                max_tools=terms.max_tools,
                max_schema_bytes=terms.max_schema_bytes,
            )
        )
        self._last: tuple[bytes, callback_toolset.Toolset] | None = None  # its digest, and what was read

    async def ask(self) -> callback_toolset.Toolset:
        """The toolset; one that has not changed is the very same.

        Raises BACKEND_UNAVAILABLE; ToolsetError for a toolset that is not valid.
        """
        text = await self._ask()
        digest = await digest_of(text)
        if self._last is not None and self._last[0] == digest:
            return self._last[1]
        reading = read_apart(READ_TOOLSET, read_toolset, self._bounds, text, self._offload, self._backend)
        del text  # the child has it
        summary, *parts = await reading
        read = toolset_listing.decode_summary(summary)
        if read.failure:
            raise unavailable(read.failure)
        if read.invalid:
            raise callback_toolset.ToolsetError(read.invalid)
        listing = Listing(tools=tuple(await decode_tools(parts)), rejected=read.rejected)
        toolset = callback_toolset.Toolset(endpoint=read.endpoint, listing=listing)
        self._last = digest, toolset
        return toolset

    async def _ask(self) -> bytes:
        request = callback_toolset.request_toolset()
        headers = (USER_AGENT, *request.headers, *self._credentials.headers("anonymous"))
        try:
            reply = await self._server.pool.request(
                request.method,
                self._server.target(request.path),
                headers,
                b"",
                timeout_s=LIST_TIMEOUT_S,
                max_body=MAX_LIST_BYTES,
            )
        except TransportError as exc:
            raise unavailable(f"{exc.kind}: {exc}") from exc
        if not 200 <= reply.status < 300:
            raise unavailable(f"its answer has status {reply.status}")
        return reply.body.removeprefix(BOM_UTF8)


def place_of(url: str, pools: Mapping[Origin, Pool]) -> tuple[Pool, bytes] | None:
    """Where a URL leads that the tool server has named; None where we do not go."""
    try:
        pool = pools[Origin.parse(url)]
    except (ValueError, KeyError):
        return None
    parts = urlsplit(url)
    return pool, ((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode("ascii")
