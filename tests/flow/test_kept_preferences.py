"""How long a caller wants to wait: the `Prefer` header (RFC 7240). What follows from it is ours."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.flow.caller import DIALECTS, Answer, Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.keeping import begun, gated
from tests.flow.toolserver import ToolServer, silence
from tests.streams import Request, http_reply

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine


async def ask(caller: Caller, dialect: str, prefer: str, **members: str) -> Answer:
    async with asyncio.timeout(DEADLINE_S):
        return await caller.call(dialect, "Echo.Say", {"a": 1}, headers={"prefer": prefer}, **members)


async def test_respond_async_gives_the_result_later(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    accepted = await ask(caller, "oxp", "respond-async", call_id="k")
    assert (accepted.status, accepted.headers["preference-applied"]) == (202, "respond-async")
    assert (accepted.result["call_id"], accepted.error["can_retry"]) == ("k", True)
    again = await ask(caller, "oxp", "respond-async", call_id="k")
    assert (again.status, again.body) == (202, accepted.body)
    await begun(server)
    opened.set()
    over = await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")
    assert over.value == {"run": 1, "input": {"a": 1}}
    replayed = await ask(caller, "oxp", "respond-async", call_id="k")
    assert (replayed.status, replayed.body, "preference-applied" in replayed.headers) == (200, over.body, False)
    assert server.executions == 1


async def test_wait_gives_what_there_is_by_then(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    for prefer, status, applied in (
        ("wait=0", 200, "wait=0"),
        ("respond-async, wait=0", 202, "respond-async, wait=0"),
    ):
        answer = await ask(caller, "oxp", prefer, call_id="k")
        assert (answer.status, answer.headers["preference-applied"]) == (status, applied)
        assert (answer.error["can_retry"], answer.error["retry_after_ms"] > 0) == (True, True)
    await begun(server)
    opened.set()
    for prefer in ("wait=5", "respond-async, wait=5"):
        answer = await ask(caller, "oxp", prefer, call_id="k")
        assert (answer.status, answer.headers["preference-applied"], answer.value["run"]) == (200, "wait=5", 1)


async def test_the_wait_ends_when_it_was_said_to(caller: Caller, server: ToolServer) -> None:
    """In all dialects at once, since a second is the shortest wait there is."""
    server.handler = silence
    started = time.monotonic()
    asked = (ask(caller, dialect, "respond-async, wait=1", call_id=dialect) for dialect in DIALECTS)
    answers = await asyncio.gather(*asked)
    assert [answer.status for answer in answers] == [202] * len(DIALECTS)
    assert 1 <= time.monotonic() - started < DEADLINE_S


async def test_no_wait_is_longer_than_the_timeout_of_the_route(start: Start, server: ToolServer) -> None:
    server.handler = silence
    caller = (await start(config({"scripted": {"protocol": "oxp", "url": server.url, "timeout": "100ms"}}))).caller
    for members in ({}, {"call_id": "k"}):
        answer = await ask(caller, "oxp", "respond-async, wait=3600", **members)
        assert (answer.status, "preference-applied" in answer.headers) == (200, False)
        assert answer.error["can_retry"] is False


async def test_a_call_that_cannot_be_read_later_ends_with_the_wait(caller: Caller, server: ToolServer) -> None:
    """Without an id and without `respond-async` a later result could not be read."""
    server.handler = silence
    for answer in await asyncio.gather(*(ask(caller, dialect, "wait=1") for dialect in DIALECTS)):
        assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=1")
        assert (answer.error["can_retry"], "location" in answer.headers) == (False, False)


@pytest.mark.parametrize(
    "lines", [("respond-async", "wait=0"), ("wait=0", "respond-async"), ("handling=lenient", "respond-async")]
)
async def test_preferences_may_be_several_lines(caller: Caller, server: ToolServer, lines: tuple[str, str]) -> None:
    """Spec: RFC 7240, section 2."""
    server.handler, opened = gated(server)
    headers = [("prefer", line) for line in lines]
    answer = await caller.call("oxp", "Echo.Say", {"a": 1}, headers=headers, call_id="k")
    assert answer.status == 202
    assert answer.headers["preference-applied"] == ", ".join(sorted({*lines} - {"handling=lenient"}))
    await begun(server)
    opened.set()


async def test_an_async_call_that_is_refused_later(caller: Caller, server: ToolServer) -> None:
    """202 would promise a call; a call that is refused later shows the refusal as its outcome."""

    asked = asyncio.Event()

    async def refuse(_received: Request) -> bytes:
        await asked.wait()
        return http_reply(400, {"message": "No."})

    server.handler = refuse
    gone = await ask(caller, "oxp", "respond-async", call_id="k")
    assert gone.status == 202
    asked.set()
    joined = await ask(caller, "oxp", "respond-async, wait=5", call_id="k")
    assert (joined.status, joined.message, "location" in joined.headers) == (400, "No.", False)
    outcome = await caller.send("oxp", "kept", "GET", gone.headers["location"])
    assert (outcome.status, outcome.error["message"]) == (200, "The tool did not run: No.")
