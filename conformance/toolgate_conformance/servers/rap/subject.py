"""The RAP server under test: opens it, with a receiver of its callbacks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx

from toolgate_conformance.callbacks import Address, receiving
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.http import Client
from toolgate_conformance.servers.rap.invocation import Waits
from toolgate_conformance.servers.rap.server import RapServer


@asynccontextmanager
async def rap_subject(
    url: str,
    headers: Mapping[str, str],
    calls: Sequence[ToolCall],
    waits: Waits | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    address: Address | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> AsyncIterator[RapServer]:
    """The server at a URL, with a receiver of its callbacks at an address.

    `headers` hold the credentials, if there are any; `transport` may carry requests in another way. `tell` shows a
    sentence to the person who runs the checks. Raises OSError if callbacks cannot be received there.
    """
    client = Client(url, headers, transport)
    try:
        async with receiving(address) as receiver:
            has_credential = bool(headers)
            server = RapServer(client, calls, receiver, waits or Waits(), has_credential=has_credential, tell=tell)
            try:
                yield server
            finally:
                await server.aclose()
    finally:
        await client.aclose()
