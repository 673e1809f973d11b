"""`httpx.AsyncClient` on our pools, and what a request that fails says on both sides."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.transport import HttpTransport, Limits, TransportError
from tests.unit.transport.scripted import DEADLINE_S


@contextlib.asynccontextmanager
async def client_of(
    limits: Limits | None = None,
    *,
    ssl_context: ssl.SSLContext | None = None,
    timeout: float | httpx.Timeout = DEADLINE_S,
) -> AsyncIterator[tuple[httpx.AsyncClient, HttpTransport]]:
    transport = HttpTransport(limits, ssl_context=ssl_context)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
        yield client, transport


async def refusal(sending: object) -> tuple[httpx.HTTPError, TransportError]:
    """Awaits a request that must fail and returns what httpx says and what the transport knows."""
    with pytest.raises(httpx.HTTPError) as caught:
        await sending  # type: ignore[misc]
    assert isinstance(caught.value.__cause__, TransportError)
    return caught.value, caught.value.__cause__
