"""Names whose meaning changes while a pool lives: new connections go where the name points now, old ones stay."""

from __future__ import annotations

import socket
from random import Random

import pytest

from gateway.net.client import Kind, Limits, Origin, Pool
from tests.fuzz.transport.loops import Leftovers, run, set_resolver
from tests.fuzz.transport.plans import LONG_S, Plan
from tests.fuzz.transport.rounds import NAME, exchange
from tests.fuzz.transport.server import Server, listening
from tests.unit.transport.scripted import failure

ALIVE = ("127.0.0.1", "127.0.0.2", "::1")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# What the name server answers, and which address the connection goes to: families take turns, the dead are passed over.
ANSWERS: list[tuple[list[str], str | None]] = [
    (["127.0.0.2", "127.0.0.1"], "127.0.0.2"),
    (["127.0.0.3", "127.0.0.1", "127.0.0.2"], "127.0.0.1"),
    (["127.0.0.3", "127.0.0.2", "::1"], "::1"),
    (["::1", "127.0.0.1"], "::1"),
    (["127.0.0.3", "127.0.0.4"], None),
    ([], None),
    (["127.0.0.1"], "127.0.0.1"),
]


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def each_answer(*, hangs_up: bool) -> None:
    """Makes a call after each answer, on a new connection if the server ends each."""
    leftovers, server = Leftovers(), Server(NAME, None, strict=True)
    server.plans = {key: Plan(key=key, raw=OK) for key in range(len(ANSWERS))}
    found: list[str] = []

    async def resolve(name: str) -> list[str]:
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return found

    set_resolver(resolve)
    async with listening(server, ALIVE):
        pool = Pool(Origin("http", NAME, server.port), Limits(connect_timeout_s=LONG_S))
        for key, (answer, place) in enumerate(ANSWERS):
            found[:] = answer
            if place is None and hangs_up:
                error = await failure(exchange(pool, server.plans[key], Random(0)))
                assert (error.kind, error.sent) == (Kind.CONNECT, False)
                continue
            await exchange(pool, server.plans[key], Random(0))
            assert server.places[key] == (place if hangs_up else ANSWERS[0][1])
            if hangs_up:
                server.hang_up(key)
        await pool.aclose()
    await leftovers.assert_none()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_name_may_mean_something_else_at_any_time(loop_name: str, hangs_up: bool) -> None:
    run(loop_name, each_answer(hangs_up=hangs_up))
