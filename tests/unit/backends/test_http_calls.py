"""Calls to OTC and OXP tool servers, and what becomes of those that go wrong."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from msgspec.structs import replace

from gateway.errors import ErrorCode
from gateway.model import Invocation, ToolResult
from tests.unit.backends.facing import (
    BROKEN,
    IDEMPOTENT,
    INVOCATION,
    MAX_RESPONSE,
    OK,
    VALUE,
    backend_at,
    facing,
    head_of,
    outcome,
    refusal,
    reply,
)
from tests.unit.transport.scripted import Peer, Script, answering, listening, serving

pytestmark = pytest.mark.anyio


async def test_a_call_brings_back_the_value_and_the_tools_own_duration() -> None:
    assert await outcome(answering(OK)) == ToolResult(value=7, duration_ms=2)


async def test_a_duration_the_tool_server_does_not_tell_is_measured() -> None:
    result = await outcome(answering(reply(200, VALUE | {"duration": None})))
    assert result.duration_ms is not None
    assert 0 < result.duration_ms < 5000


async def test_a_request_carries_our_name_our_credential_and_what_is_forwarded() -> None:
    async with facing(answering(OK), "/base", token="t0k") as (backend, server):
        await backend.call(replace(INVOCATION, headers=((b"x-tenant", b"9"),)))
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /base/tools/call HTTP/1.1\r\n")
    fields = head_of(server.requests[0])
    assert fields["user-agent"].startswith("toolgate/")
    assert (fields["authorization"], fields["x-tenant"], fields["oxp-version"]) == ("bearer t0k", "9", "1.0")
    assert json.loads(body) == {"call_id": "tg-1", "tool_id": "A.B@1.0.0", "input": {"n": 1}}


ANSWERS: list[tuple[bytes, str]] = [
    (reply(500, b"Internal Server Error", "text/plain"), "The tool failed inside its server."),
    (reply(503, b""), "The tool server is busy."),
    (reply(302, b"", location="https://elsewhere.example"), BROKEN),
    (reply(200, b"<html>", "text/html"), BROKEN),
    (reply(200, b"{"), BROKEN),
    (reply(200, VALUE | {"call_id": "tg-2"}), BROKEN),
    (reply(200, VALUE | {"value": "x" * MAX_RESPONSE}), BROKEN),
    (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", BROKEN),
    (b"SMTP ready\r\n\r\n", BROKEN),
]


@pytest.mark.parametrize(("answer", "message"), ANSWERS, ids=lambda item: repr(item)[:40])
@pytest.mark.parametrize("invocation", [INVOCATION, IDEMPOTENT], ids=["once", "idempotent"])
async def test_after_the_first_byte_every_failure_is_a_result(
    answer: bytes, message: str, invocation: Invocation
) -> None:
    async with facing(answering(answer)) as (backend, server):
        result = await backend.call(invocation)
    assert result.failure is not None
    assert result.failure.message == message
    assert result.failure.can_retry is (invocation.idempotent and "busy" in message)
    assert len(server.requests) == 1


async def hang_up(peer: Peer) -> None:
    await peer.request()


async def reset(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def half_an_answer(peer: Peer) -> None:
    await peer.request()
    await peer.send(OK[:-5])


@pytest.mark.parametrize("script", [hang_up, reset, half_an_answer])
async def test_a_call_that_broke_off_is_never_sent_twice(script: Script) -> None:
    async with facing(script) as (backend, server):
        result = await backend.call(INVOCATION)
    assert result.failure is not None
    assert result.failure.message == "The tool server broke off; the tool may have run."
    assert not result.failure.can_retry
    assert len(server.requests) == 1


@pytest.mark.parametrize("script", [hang_up, reset])
async def test_a_call_that_may_run_twice_is_sent_again_once(script: Script) -> None:
    async def broken_off_first(peer: Peer) -> None:
        await (script if peer.number == 0 else answering(OK))(peer)

    async with facing(broken_off_first) as (backend, server):
        assert (await backend.call(IDEMPOTENT)).value == 7
        assert server.requests[0] == server.requests[1]
    async with facing(script) as (backend, server):
        result = await backend.call(IDEMPOTENT)
    assert result.failure is not None
    assert result.failure.can_retry
    assert len(server.requests) == 2


async def test_a_second_sending_that_gets_nowhere_does_not_unsay_the_first() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        listener.close()
        writer.close()

    listener = await asyncio.start_server(die, "127.0.0.1", 0)
    backend = backend_at(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    result = await backend.call(IDEMPOTENT)
    await backend.aclose()
    assert result.failure is not None
    assert result.failure.message == "The tool server broke off; the tool may have run."


async def test_no_answer_in_time_may_still_be_running() -> None:
    result = await outcome(listening, replace(INVOCATION, timeout_s=0.1))
    assert result.failure is not None
    assert result.failure.message == "The tool did not answer within 0.1 seconds; it may still be running."
    assert not result.failure.can_retry


async def test_a_tool_server_that_is_not_there_is_a_refusal_that_says_when_to_come_back() -> None:
    async with serving(listening) as server:
        url = server.url
    backend = backend_at(url)
    error = await refusal(backend.call(INVOCATION))
    await backend.aclose()
    assert (error.code, error.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 1.0)
    assert url not in error.message


REFUSALS = [
    (400, ErrorCode.INVALID_REQUEST),
    (404, ErrorCode.TOOL_NOT_FOUND),
    (422, ErrorCode.INVALID_ARGUMENTS),
]


@pytest.mark.parametrize(("status", "code"), REFUSALS)
async def test_a_refusal_is_passed_on_and_not_asked_for_again(status: int, code: ErrorCode) -> None:
    async with facing(answering(reply(status, {"message": "No."}))) as (backend, server):
        error = await refusal(backend.call(INVOCATION))
    assert (error.code, error.message, len(server.requests)) == (code, "No.", 1)


@pytest.mark.parametrize("status", [401, 403])
async def test_our_own_credential_refused_is_for_the_operator(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with facing(answering(reply(status, {"message": "canary"}))) as (backend, _):
        error = await refusal(backend.call(INVOCATION))
    assert error.code is ErrorCode.BACKEND_UNAVAILABLE
    assert "canary" not in error.message
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, "a tool server does not accept our credential")
    ]
