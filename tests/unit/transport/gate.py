"""Calls that last as long as a test wants."""

from __future__ import annotations

import asyncio

from gateway.transport import Pool
from tests.unit.transport.scripted import Peer, call


class Gate:
    """A server whose replies wait until the test lets them go, one by one or all."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self._tickets = asyncio.Semaphore(0)

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            self._tickets.release()

    async def script(self, peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1]
            self.waiting.append(target)
            await self._tickets.acquire()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))


def start(pool: Pool, target: bytes) -> asyncio.Task[bytes]:
    async def body() -> bytes:
        return (await call(pool, target)).body

    return asyncio.create_task(body())
