"""New callers are taken in as many at a time as are waiting, however busy the loop is."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.net.server.acceptor import Acceptor, Handshakes

CROWD = 200
MOST_TURNS = 20  # with one connection a turn it would take as many turns as there are callers


pytestmark = pytest.mark.anyio


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


async def test_a_crowd_gets_in_within_a_few_turns_of_the_loop() -> None:
    inside: list[Guest] = []
    acceptor = Acceptor(lambda: Guest(inside), {}, Handshakes(lambda: CROWD))
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


async def test_callers_wait_while_no_files_are_left_and_the_loop_does_not_spin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside: list[Guest] = []
    acceptor = Acceptor(lambda: Guest(inside), {}, Handshakes(lambda: CROWD))
    await acceptor.open(host="127.0.0.1", port=0)
    caller = call(acceptor.address)
    with few_files():
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
    assert inside == []
    assert [record.message for record in caplog.records] == ["no caller can be accepted"]
    async with asyncio.timeout(10):
        while not inside:  # noqa: ASYNC110 - accepting says nothing
            await asyncio.sleep(0.05)
    acceptor.close()
    caller.close()


@contextmanager
def few_files() -> Iterator[None]:
    """Lets this process open no more files."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, most[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
