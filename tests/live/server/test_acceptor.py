"""New callers are taken in as many at a time as are waiting, however busy the loop is."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.server.acceptor import Acceptor

CROWD = 200
MOST_TURNS = 20  # with one connection a turn it would take as many turns as there are callers


class Guest(asyncio.Protocol):
    """A connection that is in."""

    def __init__(self, inside: list[Guest]) -> None:
        self._inside = inside

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inside.append(self)


def call(address: tuple[str, int]) -> socket.socket:
    caller = socket.socket()
    caller.setblocking(False)
    caller.connect_ex(address)
    return caller


@pytest.mark.anyio
async def test_a_crowd_gets_in_within_a_few_turns_of_the_loop() -> None:
    inside: list[Guest] = []
    acceptor = Acceptor(lambda: Guest(inside), {})
    await acceptor.open(host="127.0.0.1", port=0)
    callers = [call(acceptor.address) for _ in range(CROWD)]
    turns = 0
    async with asyncio.timeout(10):
        while len(inside) < CROWD:
            turns += bool(inside)
            await asyncio.sleep(0)
    acceptor.close()
    for caller in callers:
        caller.close()
    assert turns <= MOST_TURNS
