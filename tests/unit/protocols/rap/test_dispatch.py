"""Handing calls to a callback tool server: what each kind of acknowledgement, or none, means."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.core.model import CallContext, Invocation
from gateway.core.ports import NotDispatchedError
from gateway.upstream.admission import BreakerRules
from tests.unit.dispatch_gate import RecordingGate, refusing
from tests.unit.net.client.scripted import Peer, Script
from tests.unit.protocols.rap.calling_back import CALLBACK_URL, INVOCATION, OK, Toolset, facing
from tests.unit.upstream.facing import head_of, refusal, reply

pytestmark = pytest.mark.anyio

IDEMPOTENT = replace(INVOCATION, idempotent=True)


async def test_an_invocation_carries_our_credential_and_nothing_the_tool_did_not_ask_for() -> None:
    context = CallContext(user_id="user-42", tokens={"t": "canary"}, secrets={"s": "canary"})
    invocation = replace(INVOCATION, context=context, headers=((b"x-tenant", b"9"),), ancestors=("grp-0",))
    async with facing(Toolset(), token="t0k") as at:
        assert await at.backend.dispatch(invocation, CALLBACK_URL) is None
    request = at.server.requests[-1]
    fields = head_of(request)
    assert request.startswith(b"POST /invoke HTTP/1.1\r\n")
    assert (fields["content-type"], fields["authorization"]) == ("application/json", "bearer t0k")
    assert (fields["x-tenant"], fields["user-agent"][:9]) == ("9", "toolgate/")
    assert json.loads(request.partition(b"\r\n\r\n")[2]) == {
        "operation": "lint",
        "arguments": {"n": 1},
        "id": "tg-1",
        "call_id": None,
        "callback_url": CALLBACK_URL,
        "group_id": "grp-1",
        "thread_ancestors": ["grp-0"],
        "user_id": "user-42",
    }


ACCEPTED = [reply(200, b'{"error": "it is not read"}'), reply(202, b""), b"HTTP/1.1 204 No Content\r\n\r\n"]


@pytest.mark.parametrize("answer", ACCEPTED, ids=repr)
async def test_any_2xx_is_an_acknowledgement_and_what_is_odd_about_it_is_logged_once(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status = int(answer.split()[1])
    async with facing(Toolset(answer)) as at:
        for _ in range(3):
            assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is None
    assert at.ends.results == {}
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        f"a tool server acknowledges calls with {status} instead of 200"
    ] * (status != 200)


NOT_TAKEN = "The tool server did not accept the call."
FAILED_TO = "The tool server failed to accept the call; the tool may have run."
CHANGED = "The tools of the tool server have changed. List them again before you call."
BROKEN = "The tool server gave a broken answer."
UNAVAILABLE = "The tool is temporarily unavailable."
REFUSED = [
    (302, BROKEN, "broken_answer"),
    (401, UNAVAILABLE, "backend_unavailable"),
    (403, UNAVAILABLE, "backend_unavailable"),
    (404, NOT_TAKEN, "tool_error"),
    (408, NOT_TAKEN, "tool_error"),
    (409, CHANGED, "tool_error"),
    (429, "The tool server is busy.", "backend_busy"),
    (500, FAILED_TO, "tool_error"),
    (503, "The tool server is busy.", "backend_busy"),
    (504, FAILED_TO, "tool_error"),
]


@pytest.mark.parametrize(
    ("status", "message", "code", "invocation"),
    [*((*refused, INVOCATION) for refused in REFUSED), *((*REFUSED[number], IDEMPOTENT) for number in (6, 7))],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
async def test_any_other_status_fails_the_call_at_once_unless_it_is_answered_already(
    status: int, message: str, code: str, invocation: Invocation, caplog: pytest.LogCaptureFixture
) -> None:
    answer = reply(status, b"canary", "text/plain", location="http://elsewhere.example/", retry_after="7")
    toolset = Toolset(answer)
    async with facing(toolset) as at:
        assert await at.backend.dispatch(invocation, CALLBACK_URL, RecordingGate(answered=True)) is None
        result = await at.backend.dispatch(invocation, CALLBACK_URL, RecordingGate())
    is_busy = status in (429, 503)
    can_retry = invocation is IDEMPOTENT and is_busy
    assert result is not None
    assert result.failure is not None
    assert (result.failure.message, result.failure.public_code, result.failure.can_retry) == (message, code, can_retry)
    assert result.failure.retry_after_ms == (7000 if is_busy else None)
    assert len(toolset.noted) == 2  # never sent again, and no redirect followed
    assert at.changes == (["builds"] if status == 409 else [])
    assert ("a tool server does not accept our credential" in caplog.text) == (status in (401, 403))
    assert "canary" not in caplog.text


async def say_nothing(peer: Peer) -> None:
    await peer.until_closed()


async def hang_up(peer: Peer) -> None:
    raise ConnectionResetError


async def reset(peer: Peer) -> None:
    peer.reset()
    raise ConnectionResetError


async def half_an_answer(peer: Peer) -> None:
    await peer.send(OK[:-5])
    raise ConnectionResetError


async def no_http(peer: Peer) -> None:
    await peer.send(b"SMTP ready\r\n\r\n")


async def far_too_much(peer: Peer) -> None:
    await peer.send(reply(200, b"x" * 10_000))


@pytest.mark.parametrize("ending", [say_nothing, hang_up, reset, half_an_answer, no_http, far_too_much])
async def test_a_call_that_may_have_arrived_is_waited_for(ending: Script, caplog: pytest.LogCaptureFixture) -> None:
    toolset = Toolset(ending)
    async with facing(toolset) as at:
        assert await at.backend.dispatch(replace(IDEMPOTENT, timeout_s=0.2), CALLBACK_URL) is None
    assert len(toolset.noted) == 1
    assert "a tool server did not acknowledge a call, which may run all the same" in caplog.text
    assert "token" not in caplog.text  # of the callback URL


@pytest.mark.parametrize(("answered", "state"), [(True, "closed"), (False, "open")])
async def test_a_tool_server_that_is_hung_up_on_takes_calls_if_it_has_called_back(
    *, answered: bool, state: str
) -> None:
    asked = asyncio.Event()

    async def acknowledge(peer: Peer) -> None:
        asked.set()
        await peer.until_closed()

    async with facing(Toolset(acknowledge), breaker=BreakerRules(failures=1)) as at:
        breaker = at.way_in.replicas[0].breaker
        breaker.record_failure(breaker.generation)
        await at.backend.list_tools()  # so that the next call may find out
        dispatch = asyncio.create_task(at.backend.dispatch(INVOCATION, CALLBACK_URL, RecordingGate(answered=answered)))
        await asked.wait()
        dispatch.cancel()
        await asyncio.wait([dispatch])
        assert (dispatch.cancelled(), breaker.state) == (True, state)


class Held:
    """Acknowledges nothing until it may."""

    def __init__(self) -> None:
        self.first_is_in, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        self.first_is_in.set()
        await self.go_on.wait()
        await peer.send(OK)


@pytest.mark.parametrize("gate", [RecordingGate(), refusing()], ids=["wanted", "given up"])
async def test_a_call_that_had_to_wait_is_handed_over_only_if_it_is_still_wanted(gate: RecordingGate) -> None:
    held = Held()
    toolset = Toolset(held)
    async with facing(toolset, concurrency=1) as at:
        at_once = RecordingGate()
        first = asyncio.create_task(at.backend.dispatch(INVOCATION, CALLBACK_URL, at_once))
        await held.first_is_in.wait()
        second = asyncio.create_task(at.backend.dispatch(INVOCATION, CALLBACK_URL, gate))
        await asyncio.sleep(0)
        assert gate.events == ["queued"]
        held.go_on.set()
        ends = await asyncio.gather(first, second, return_exceptions=True)
        assert (at_once.events, gate.events) == ([], ["queued", "sent"])
        assert ends[0] is None
        assert isinstance(ends[1], NotDispatchedError) == (len(toolset.noted) == 1)
        assert len(toolset.noted) == 1 + (ends[1] is None)


async def test_a_call_that_waits_while_its_toolset_becomes_invalid_is_refused() -> None:
    held = Held()
    toolset = Toolset(held)
    async with facing(toolset, concurrency=1) as at:
        first = asyncio.create_task(at.backend.dispatch(INVOCATION, CALLBACK_URL))
        await held.first_is_in.wait()
        second = asyncio.create_task(refusal(at.backend.dispatch(INVOCATION, CALLBACK_URL)))
        await asyncio.sleep(0)  # now it waits for its turn
        toolset.manifest = reply(200, {"name": "builds"})
        await at.backend.list_tools()
        held.go_on.set()
        assert (await first, (await second).code) == (None, ErrorCode.BACKEND_UNAVAILABLE)
    assert len(toolset.noted) == 1
