"""When backends are asked, and when all of them have had their time."""

from __future__ import annotations

import asyncio

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.turns import Turns
from tests.unit.catalogue.asking import DEADLINE_S, ToolServer, ids, one_backend, tool

pytestmark = pytest.mark.anyio


async def test_a_backend_waits_for_its_turn_and_its_time_begins_with_that() -> None:
    now = 100.0
    turns = Turns(["one", "other"], lambda: now, 10.0, at_once=1)
    turns.begin()
    other_begins, other_ends = asyncio.Event(), asyncio.Event()

    async def ask_other() -> None:
        async with turns.of("other"):
            other_begins.set()
            await other_ends.wait()

    async with asyncio.timeout(DEADLINE_S):
        async with turns.of("one"):
            asking = asyncio.create_task(ask_other())
            await asyncio.sleep(0)
            now += 20.0
            assert not other_begins.is_set()
            assert not turns.are_over
        await other_begins.wait()
        now += 9.0
        assert not turns.are_over
        now += 1.0
        assert turns.are_over
        other_ends.set()
        await asking


async def test_lists_that_come_at_once_share_snapshots() -> None:
    """A fleet of ten thousand would else have a snapshot of all its tools made ten thousand times."""
    servers = [ToolServer(f"server{number}", tool(f"T{number}.X")) for number in range(100)]
    made: list[None] = []
    catalogue = Catalogue([one_backend(server) for server in servers], on_rebuilt=lambda: made.append(None))
    await catalogue.start()
    async with asyncio.timeout(DEADLINE_S):
        await catalogue.wait_ready()
    assert len(ids(catalogue)) == len(servers)
    assert len(made) < len(servers) / 5
    await catalogue.aclose()
