"""Streams on which MCP servers announce that their list of tools has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.protocols.mcp.servers.changes import Pauses
from tests.protocols.mcp.server_double import (
    END,
    EVENTS,
    INVOCATION,
    LEGACY,
    MODERN,
    PATIENCE_S,
    Double,
    Script,
    Talk,
    chunk,
    event,
    facing,
)
from tests.streams import http_reply

pytestmark = pytest.mark.anyio

ANNOUNCES = {"tools": {"listChanged": True}}
CHANGED = event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
LISTENS = {"modern": "subscriptions/listen", "legacy": "GET"}
QUICK = Pauses(first_s=0.001, longest_s=0.01)


class Changes:
    """Counts what was announced."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.count < count:
                self._changed.clear()
                await self._changed.wait()


def acknowledged(talk: Talk) -> bytes:
    subscription = {"io.modelcontextprotocol/subscriptionId": talk.id}
    params = {"notifications": {"toolsListChanged": True}, "_meta": subscription}
    return event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})


async def begin(talk: Talk) -> None:
    await talk.send(EVENTS)
    if talk.method == "subscriptions/listen":
        await talk.send(chunk(acknowledged(talk)))


async def discover(talk: Talk) -> None:
    await talk.answer({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": ANNOUNCES})


async def initialize(talk: Talk) -> None:
    result = {"protocolVersion": LEGACY, "capabilities": ANNOUNCES, "serverInfo": {"name": "x"}}
    await talk.answer(result, mcp_session_id="s1")


@asynccontextmanager
async def announcing(
    era: str, on_listen: Script, others: Mapping[str, Script] | None = None
) -> AsyncIterator[tuple[Any, Double, Changes]]:
    """A backend that has listed once, in front of a server that announces changes."""
    scripts = {LISTENS[era]: on_listen} | ({"server/discover": discover} if era == "modern" else {})
    if era == "legacy":
        scripts["initialize"] = initialize
    changes = Changes()
    keys = {"on_change": changes}
    async with facing(era, others=scripts | dict(others or {}), keys=keys) as (backend, double):
        double.sessions.add("s1")
        backend._changes._pauses = QUICK
        await backend.list_tools()
        yield backend, double, changes


@pytest.mark.parametrize("era", LISTENS)
async def test_mcp_73_changes_are_announced_on_a_stream_that_is_closed_with_the_backend(era: str) -> None:
    closed = asyncio.Event()

    async def on_listen(talk: Talk) -> None:
        await begin(talk)
        await talk.send(chunk(b": a comment\n\n") + chunk(event("no JSON")) + chunk(CHANGED))
        await talk.until_closed()
        closed.set()

    async with announcing(era, on_listen) as (backend, double, changes):
        await changes.until(2)  # once for what was missed before
        await backend.list_tools()  # one stream is enough
        assert (await backend.call(INVOCATION)).value == "seven"
        [talk] = double.of(LISTENS[era])
        await backend.aclose()
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
    if era == "modern":
        assert talk.message["params"]["notifications"] == {"toolsListChanged": True}
        assert talk.request.header("mcp-method") == "subscriptions/listen"
    else:
        assert talk.request.header("accept") == "text/event-stream"
        assert talk.request.header("mcp-session-id") == "s1"
    assert changes.count == 2


@pytest.mark.parametrize("era", LISTENS)
@pytest.mark.parametrize("how", ["ends", "breaks off", "is busy"])
async def test_mcp_73_a_stream_that_ends_is_opened_again_and_the_list_is_asked_for(era: str, how: str) -> None:
    async def on_listen(talk: Talk) -> None:
        times.append(how)
        if how == "is busy" and len(times) < 3:
            return await talk.send(http_reply(503, {}))
        await begin(talk)
        if how == "ends" and len(times) < 3:
            return await talk.send(END)
        if how == "breaks off":
            talk.hang_up()
        return await talk.until_closed()

    times: list[str] = []

    async with announcing(era, on_listen) as (_, _, changes):
        await changes.until(1 if how == "is busy" else 3)
        assert len(times) >= 3


REFUSALS = [(405, b""), (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}})]


@pytest.mark.parametrize(("status", "body"), REFUSALS, ids=["405", "an error"])
async def test_mcp_73_a_server_without_such_a_stream_is_left_alone(status: int, body: Any) -> None:
    async def on_listen(talk: Talk) -> None:
        await talk.send(http_reply(status, body))

    async with announcing("modern", on_listen) as (backend, double, changes):
        [listening] = backend._changes._listening.values()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([listening])
        await backend.list_tools()
        assert backend._changes._listening == {double.url: listening}
        assert len(double.of("subscriptions/listen")) == 1
        assert changes.count == 0


async def test_mcp_73_a_server_that_announces_nothing_is_not_asked_to() -> None:
    for era in LISTENS:
        async with facing(era) as (backend, double):
            await backend.list_tools()
            assert not backend._changes._listening
            assert not double.of(LISTENS[era])


async def test_mcp_73_a_session_that_has_ended_is_left_and_the_next_list_listens_in_another() -> None:
    async def on_listen(talk: Talk) -> None:
        if len(double.of("GET")) == 2:
            return await talk.send(http_reply(404, {}))
        await begin(talk)
        if len(double.of("GET")) == 1:
            return await talk.send(END)
        return await talk.until_closed()

    async with announcing("legacy", on_listen) as (backend, double, changes):
        [listening] = backend._changes._listening.values()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([listening])
        await backend.list_tools()
        await changes.until(2)
        assert len(double.of("initialize")) == 2
        assert len(double.of("GET")) == 3


@pytest.mark.parametrize("status", [404, 501])
async def test_mcp_73_a_legacy_server_without_such_a_stream_keeps_its_session(status: int) -> None:
    async def on_listen(talk: Talk) -> None:
        await talk.send(http_reply(status, {}))

    async with announcing("legacy", on_listen) as (backend, double, _):
        [listening] = backend._changes._listening.values()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([listening])
        for _ in range(3):
            await backend.list_tools()
        assert (len(double.of("initialize")), len(double.of("GET"))) == (1, 1)


async def test_mcp_73_what_a_legacy_server_asks_for_on_its_stream_is_answered() -> None:
    async def on_listen(talk: Talk) -> None:
        await begin(talk)
        asked = event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await talk.send(chunk(event({"jsonrpc": "2.0", "id": 0, "method": "ping"})) + chunk(asked))
        await talk.until_closed()

    async with announcing("legacy", on_listen) as (_, double, _):
        await double.until(lambda: len(answers_in(double)) == 2)
        answers = {talk.id: talk.message for talk in answers_in(double)}
    assert answers[0]["result"] == {}
    assert answers["q"]["error"]["code"] == -32601


def answers_in(double: Double) -> list[Talk]:
    return [talk for talk in double.told if "result" in talk.message or "error" in talk.message]


@pytest.mark.parametrize("era", LISTENS)
async def test_mcp_73_a_change_that_is_announced_while_a_tool_runs_counts_as_well(era: str) -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(CHANGED, event(talk.response()))

    changes = Changes()
    async with facing(era, script, keys={"on_change": changes}) as (backend, _):
        assert (await backend.call(INVOCATION)).value == "seven"
    assert changes.count == 1


async def test_a_stream_that_floods_is_ended_with_a_line_in_the_log_and_opened_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened: list[Talk] = []

    async def on_listen(talk: Talk) -> None:
        opened.append(talk)
        await begin(talk)
        if len(opened) > 1:
            await talk.send(chunk(CHANGED))
            return await talk.until_closed()
        while True:
            await talk.send(chunk(b"\n" * 10_000))

    async with announcing("modern", on_listen) as (_, _, changes):
        await changes.until(3)
    [line] = [each for each in caplog.records if each.getMessage() == "a stream of changes broke off"]
    assert line.levelname == "WARNING"
    assert "10000 lines and 300 more per second" in line.__dict__["reason"]
