"""The servers inside tests: nothing of them is left when their block is over."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest
import uvloop

from tests.streams import accepting


async def end_while_somebody_comes(turns: int) -> socket.socket:
    """Connects, and ends the server so many turns of the loop later."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with accepting(converse) as port:
        caller = socket.create_connection(("127.0.0.1", port))
        for _ in range(turns):
            await asyncio.sleep(0)
    return caller


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_that_comes_as_its_server_ends_is_closed(turns: int) -> None:
    """uvloop cannot close a loop with sockets left: the test would fail, and with it the one that comes next."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            caller = runner.run(end_while_somebody_comes(turns))
        caller.close()
        gc.collect()
    assert [warning.message for warning in told] == []
