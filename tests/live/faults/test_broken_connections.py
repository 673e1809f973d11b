"""Connections to a tool server that end in the middle of an exchange, in each way TCP knows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.live.faults.site import Site, site
from tests.support.calling import call, failure, value
from tests.support.processes import until
from tests.support.toolserver import Exchange, echo

TIMES = 50  # that a connection is given up by the tool server between two calls


async def half_close(exchange: Exchange) -> None:
    exchange.half_close()
    await exchange.until_closed()


async def reset(exchange: Exchange) -> None:
    exchange.reset()


async def close(exchange: Exchange) -> None:
    raise ConnectionError


async def begin_an_answer(exchange: Exchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{")
    await half_close(exchange)


async def answer_and_leave(exchange: Exchange) -> None:
    """Says that the connection stays, and closes it."""
    await echo(exchange)
    await half_close(exchange)


FRAGILE = {"Lab.HalfCloses": half_close, "Lab.Resets": reset, "Lab.Closes": close, "Lab.Begins": begin_an_answer}


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Site]:
    async with site({**FRAGILE, "Lab.Leaves": answer_and_leave, "Lab.Echo": echo}) as place:
        yield place


@pytest.mark.anyio
@pytest.mark.parametrize("tool", FRAGILE)
async def test_a_tool_server_that_breaks_off_is_not_asked_again(place: Site, tool: str) -> None:
    assert value(await call(place.http, "Lab.Echo", {})) == {}  # leaves a connection open, which is used next
    assert (
        failure(await call(place.http, tool))["message"]
        == "The connection to the tool server broke; the tool may have run."
    )
    assert len(place.lab.calls(tool)) == 1
    await until(lambda: place.lab.connections == 0, "the broken connection is closed")
    assert value(await call(place.http, "Lab.Echo", {"n": 2})) == {"n": 2}


@pytest.mark.anyio
async def test_a_connection_that_ends_after_a_whole_answer_loses_no_call(place: Site) -> None:
    for number in range(TIMES):
        assert value(await call(place.http, "Lab.Leaves", {"n": number})) == {"n": number}
    assert len(place.lab.calls("Lab.Leaves")) == TIMES
