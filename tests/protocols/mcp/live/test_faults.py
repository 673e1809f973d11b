"""MCP servers that go wrong under load: restarted with their sessions lost, mute, or never done talking."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from tests.protocols.mcp.server_double import EVENTS, Double, Talk, chunk, event, serving
from tests.streams import accepting
from tests.support.calling import assert_unavailable, call, caller, failure, result, value
from tests.support.ports import lasting_port
from tests.support.processes import Settings, gateway, settings

pytestmark = pytest.mark.anyio

CALLERS, CALLS = 8, 12  # of each server, and of each caller
RESTART_EVERY = 20  # calls; the one that brings it about is never answered
AGAIN_S = 0.1  # after a refusal
FLOOD_MEMORY = 48 * 1024 * 1024
PROGRESS = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})


def mcp(url: str, **more: object) -> Settings:
    return {"protocol": "mcp", "url": url, **more}


class Restarted:
    """A server that is restarted time and again: connections break, it is away for a moment, sessions are lost."""

    def __init__(self, era: str) -> None:
        self.counts: Counter[int] = Counter()
        self.restarts = 0
        self.double = Double(era, self._count, {})
        self.port = lasting_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._is_due = asyncio.Event()

    async def _count(self, talk: Talk) -> None:
        n = talk.message["params"]["arguments"]["n"]
        self.counts[n] += 1
        if self.counts.total() % RESTART_EVERY == 0:
            self._is_due.set()
            await talk.until_closed()
        await talk.answer({"content": [], "structuredContent": n})

    async def run(self) -> None:
        while True:
            async with accepting(self.double.converse, port=self.port):
                await self._is_due.wait()
                self._is_due.clear()
            self.restarts += 1
            self.double.sessions.clear()


async def count(http: httpx.AsyncClient, tool: str, server: Restarted, n: int) -> None:
    """Calls until the call is not refused, which says that it has not run."""
    while (answer := await call(http, tool, {"n": n})).status_code != httpx.codes.OK:
        assert_unavailable(answer)
        assert server.counts[n] == 0
        await asyncio.sleep(AGAIN_S)
    ended = result(answer)
    if ended["success"]:
        assert (ended["value"], server.counts[n]) == (n, 1)
    else:
        assert (ended["error"]["can_retry"], server.counts[n] <= 1) == (False, True)


async def test_mcp_59_servers_that_are_restarted_under_load_run_no_call_twice() -> None:
    servers = {"Modern": Restarted("modern"), "Legacy": Restarted("legacy")}
    breaker = {"failures": 100, "open_for": "100ms"}
    backends = {name: mcp(server.url, toolkit=name, breaker=breaker) for name, server in servers.items()}
    running = [asyncio.create_task(server.run()) for server in servers.values()]
    try:
        async with gateway(settings(backends)) as front, caller(front.url) as http:

            async def load(name: str, first: int) -> None:
                for n in range(first, first + CALLS):
                    await count(http, f"{name}.find_it", servers[name], n)

            await asyncio.gather(*(load(name, number * CALLS) for name in servers for number in range(CALLERS)))
    finally:
        for task in running:
            task.cancel()
    for server in servers.values():
        assert server.restarts >= 3
        assert set(server.counts.values()) == {1}
    legacy = servers["Legacy"]
    assert len(legacy.double.of("initialize")) > legacy.restarts


async def flood(talk: Talk) -> None:
    await talk.send(EVENTS)
    while True:
        await talk.send(chunk(PROGRESS * 500))


async def mute(talk: Talk) -> None:
    await talk.until_closed()


async def test_mcp_63_servers_that_never_stop_or_never_begin_cost_others_nothing() -> None:
    async with serving("modern") as good, serving("modern", flood) as flooding, serving("legacy", mute) as silent:
        doubles = {"Good": good, "Flood": flooding, "Mute": silent}
        backends = {name: mcp(double.url, toolkit=name, timeout="1s") for name, double in doubles.items()}
        async with gateway(settings(backends)) as running, caller(running.url) as http:
            before = running.memory_bytes()
            bad = [asyncio.create_task(call(http, f"{name}.find_it")) for name in ("Flood", "Mute", "Mute")]
            answered = 0
            while not all(task.done() for task in bad):
                assert value(await call(http, "Good.find_it")) == "seven"
                answered += 1
            assert answered > 3
            messages = [failure(task.result())["message"] for task in bad]
            assert all("it may still be running" in message for message in messages[1:])
            assert running.peak_memory_bytes() - before < FLOOD_MEMORY
