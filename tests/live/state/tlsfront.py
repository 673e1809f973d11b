"""TLS in front of a Redis server whose build has none: a real handshake, then the same bytes to and fro."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.streams import accepting, carry


@asynccontextmanager
async def tls_front(context: ssl.SSLContext, port: int) -> AsyncIterator[int]:
    """Listens on loopback and passes everything on to `port`; yields its own port."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    async with accepting(pass_on, ssl=context) as own_port:
        yield own_port
