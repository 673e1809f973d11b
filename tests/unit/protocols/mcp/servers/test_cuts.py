"""Answers of MCP servers that are cut after each of their bytes: nothing runs twice, and nothing is made up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.net.client import Limits
from gateway.upstream.admission import BreakerRules
from tests.protocols.mcp.server_double import (
    END,
    EVENTS,
    INVOCATION,
    PATIENCE_S,
    Double,
    Script,
    Talk,
    backend_at,
    chunk,
    event,
    serving,
)
from tests.unit.upstream.admitting import admission

pytestmark = pytest.mark.anyio

PROGRESS = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
Answer = Callable[[Talk], tuple[bytes, int]]  # and how much of it has to arrive


def streamed(talk: Talk, *first: bytes) -> tuple[bytes, int]:
    begun = EVENTS + b"".join(map(chunk, (*first, PROGRESS)))
    last = chunk(event(talk.response()))
    return begun + last + END, len(begun + last) - len(b"\r\n")


def primed(talk: Talk) -> tuple[bytes, int]:
    """A stream that can be resumed as soon as its first event has arrived."""
    first = event("", f"id: {talk.id}", "retry: 0")
    return streamed(talk, first)[0], len(EVENTS + chunk(first)) - len(b"\r\n")


async def ends_of(era: str, answer: Answer, others: dict[str, Script]) -> Double:
    """Calls that are cut one byte later each: their ends are as they have to be. Returns the server."""

    async def script(talk: Talk) -> None:
        n = talk.message["params"]["arguments"]["n"]
        data, enough = answer(talk)
        needed[n] = n >= enough
        longest.append(len(data))
        await talk.send(data[:n])
        if n < len(data):  # after a whole answer the connection may have the next call already
            talk.hang_up()

    async def end(n: int) -> Any:
        result = await backend.call(replace(INVOCATION, arguments={"n": n}))
        return result.value if result.failure is None else result.failure.outcome

    needed, longest = dict[int, bool](), list[int]()
    async with serving(era, script, others) as double:
        patient = Limits(connect_timeout_s=PATIENCE_S)
        rules = BreakerRules(failures=10_000)
        way_in = admission(double.url, transport=patient, breaker=rules, concurrency=64, queue_timeout_s=PATIENCE_S)
        async with aclosing(backend_at(double.url, way_in=way_in)) as backend:
            await end(0)
            count = longest[0] + 10
            found = await asyncio.gather(*map(end, range(count)))
    assert found == ["seven" if needed[n] else "unknown" for n in range(count)]
    assert set(found) == {"seven", "unknown"}
    assert len(double.ran) == count + 1
    return double


async def test_mcp_62_an_answer_that_is_cut_anywhere_is_itself_or_unknown() -> None:
    await ends_of("modern", streamed, {})


async def test_mcp_62_a_stream_with_ids_that_is_cut_anywhere_is_resumed() -> None:
    async def resumed(talk: Talk) -> None:
        response = talk.response() | {"id": int(talk.request.header("last-event-id") or "")}
        await talk.stream(event(response))

    double = await ends_of("legacy", primed, {"GET": resumed})
    assert double.of("GET")
