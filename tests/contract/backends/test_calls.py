"""Calls through any backend that answers in the same exchange: what comes back, and that nothing runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.core.model import Invocation
from gateway.upstream.admission import BreakerRules
from tests.contract.backends.far_ends import KINDS, Called, Script, fleet
from tests.protocols.mcp.server_double import IDEMPOTENT, INVOCATION
from tests.streams import http_reply
from tests.unit.upstream.facing import refusal

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS)]

OFF = "The connection to the tool server broke; the tool may have run."
BROKEN = "The tool server gave a broken answer."
VALUES = [None, False, 0, -1.5, 2**53, "", "text", "æ\u0000\U0001f600", [], [1, [None]], {}, {"a": {"result": 1}}]


async def echo(called: Called) -> None:
    await called.value(called.arguments["value"])


async def hang_up(called: Called) -> None:
    called.hang_up()


def calling(value: Any, invocation: Invocation = INVOCATION) -> Invocation:
    return replace(invocation, arguments={"value": value})


async def test_arguments_and_values_arrive_as_they_are(kind: str) -> None:
    async with fleet(kind, echo) as of:
        for value in VALUES:
            result = await of.backend.call(calling(value))
            assert (result.value, result.failure) == (value, None)
            assert result.duration_ms is not None


async def test_a_tool_that_fails_is_a_failure_and_the_server_stays_in_use(kind: str) -> None:
    async with fleet(kind, lambda called: called.failure("No."), breaker=BreakerRules(failures=2)) as of:
        for _ in range(5):
            failure = (await of.backend.call(INVOCATION)).failure
            assert failure is not None
            assert (failure.message, failure.outcome, failure.can_retry) == ("No.", "tool_error", False)
        assert of.runs == 5


async def test_tools_are_listed_and_credentials_and_headers_sent(kind: str) -> None:
    async with fleet(kind, echo, keys={"auth": {"bearer": "t0k"}}) as of:
        assert [tool.tool for tool in (await of.backend.list_tools()).tools] == ["Crm.find_it"]
        await of.backend.call(replace(calling(1), headers=((b"x-tenant", b"9"),), principal="anna"))
        sent = [*of.servers[0].lists, of.servers[0].calls[0].request]
    assert [request.header("authorization") for request in sent] == ["Bearer t0k"] * len(sent)
    assert (sent[0].header("x-tenant"), sent[-1].header("x-tenant")) == (None, "9")
    assert (sent[-1].header("user-agent") or "").startswith("toolgate/")


CUT = {
    "at once": b"",
    "in the head": b"HTTP/1.1 200 OK\r\ncontent-type",
    "in the body": b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"jsonrpc"',
}


@pytest.mark.parametrize("words", CUT.values(), ids=CUT)
async def test_a_call_that_is_broken_off_runs_again_only_if_it_may(kind: str, words: bytes) -> None:
    async def script(called: Called) -> None:
        await called.send(words)
        called.hang_up()

    for invocation, runs in ((INVOCATION, 1), (IDEMPOTENT, 2)):
        async with fleet(kind, script, script) as of:
            failure = (await of.backend.call(invocation)).failure
            assert failure is not None
            assert (failure.message, failure.outcome) == (OFF, "unknown")
            assert failure.can_retry is invocation.idempotent
            assert of.runs == runs


STATUSES = {
    302: BROKEN,
    429: "The tool server is busy.",
    500: "The tool failed inside its server.",
    502: "The tool failed inside its server.",
    503: "The tool server is busy.",
}
# An API has no other way to speak of what was asked for than its statuses.
OF_APIS = {
    302: "The service moved this (302).",
    403: "The service is busy (403).",  # which says when to come back
    429: "The service is busy (429).",
    500: "The service failed (500).",
    502: "The service failed (502).",
    503: "The service is busy (503).",
}


@pytest.mark.parametrize("status", [*STATUSES, 401, 403])
async def test_a_status_means_the_same_everywhere(kind: str, status: int) -> None:
    messages = OF_APIS if kind == "openapi" else STATUSES

    async def script(called: Called) -> None:
        await called.send(http_reply(status, b"", location="http://127.0.0.1:1/", retry_after="7"))

    async with fleet(kind, script, script) as of:
        if status in messages:
            failure = (await of.backend.call(IDEMPOTENT)).failure
            assert failure is not None
            assert failure.message == messages[status]
            assert failure.retry_after_ms == (
                7000 if status in (429, 503) or (messages is OF_APIS and status > 302) else None
            )
        else:
            assert (await refusal(of.backend.call(IDEMPOTENT))).code is ErrorCode.BACKEND_UNAVAILABLE
        assert of.runs == 1


@pytest.mark.parametrize("body", [b"hello", b"[]", b"{", b"\xff", b"[" * 100_000, b'"' + b"x" * 5000 + b'"'])
async def test_an_answer_that_means_nothing_is_broken(kind: str, body: bytes) -> None:
    if kind == "openapi" and body == b"[]":
        return  # any JSON is a value

    async def script(called: Called) -> None:
        await called.send(http_reply(200, body, content_type="application/json"))

    async with fleet(kind, script, keys={"max_response": "4KiB"}) as of:
        failure = (await of.backend.call(IDEMPOTENT)).failure
        assert failure is not None
        assert (failure.can_retry, of.runs) == (False, 1)
        if len(body) > 4096:
            assert (failure.code, "4096 bytes" in failure.message) == ("result_too_large", True)
        else:
            assert failure.message == BROKEN


async def test_a_deadline_ends_the_wait_and_the_connection(kind: str) -> None:
    async def script(called: Called) -> None:
        if called.arguments == {"value": 1}:
            await called.value(1)
        else:
            await called.until_closed()
            closed.set()

    closed = asyncio.Event()
    async with fleet(kind, script) as of:
        await of.backend.call(calling(1))  # leaves a connection open
        failure = (await of.backend.call(replace(calling(2, IDEMPOTENT), timeout_s=0.3))).failure
        assert failure is not None
        assert (failure.outcome, failure.message.rpartition("; ")[2]) == ("timeout", "it may still be running.")
        await closed.wait()
        assert of.runs == 2


async def test_a_caller_that_leaves_ends_the_exchange(kind: str) -> None:
    async def script(called: Called) -> None:
        came.set()
        await called.until_closed()
        closed.set()

    came, closed = asyncio.Event(), asyncio.Event()
    async with fleet(kind, script) as of:
        leaving = asyncio.create_task(of.backend.call(INVOCATION))
        await came.wait()
        leaving.cancel()
        await closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await leaving


# Admission.


async def test_a_server_that_is_gone_is_a_refusal_and_the_next_replica_takes_the_call(kind: str) -> None:
    async with fleet(kind, None) as of:
        refused = await refusal(of.backend.call(INVOCATION))
        assert (refused.code, refused.retry_after_s is None) == (ErrorCode.BACKEND_UNAVAILABLE, False)
    async with fleet(kind, None, echo) as of:
        assert [(await of.backend.call(calling(n))).value for n in range(9)] == list(range(9))
        assert of.runs == 9


@pytest.mark.parametrize("script", [hang_up, lambda called: called.send(http_reply(503, b""))], ids=["gone", "503"])
async def test_a_server_that_fails_again_and_again_is_left_alone(kind: str, script: Script) -> None:
    async with fleet(kind, script, breaker=BreakerRules(failures=2, open_for_s=600)) as of:
        for _ in range(2):
            assert (await of.backend.call(INVOCATION)).failure is not None
        refused = await refusal(of.backend.call(INVOCATION))
        assert (refused.code, of.runs) == (ErrorCode.BACKEND_UNAVAILABLE, 2)
        assert refused.retry_after_s is not None


async def test_calls_beyond_the_limit_wait_and_those_beyond_the_queue_are_refused(kind: str) -> None:
    async def script(called: Called) -> None:
        await release.wait()
        await echo(called)

    release = asyncio.Event()
    async with fleet(kind, script, concurrency=2, queue=2) as of:
        waiting = [asyncio.create_task(of.backend.call(calling(n))) for n in range(4)]
        await asyncio.sleep(0)
        refused = await refusal(of.backend.call(calling(4)))
        assert (refused.code, refused.retry_after_s is None) == (ErrorCode.BACKEND_UNAVAILABLE, False)
        release.set()
        assert [result.value for result in await asyncio.gather(*waiting)] == [0, 1, 2, 3]
        assert of.runs == 4


async def test_a_backend_that_is_closed_ends_what_waits(kind: str) -> None:
    async def script(called: Called) -> None:
        came.set()
        await called.until_closed()

    came = asyncio.Event()
    async with fleet(kind, script, concurrency=1) as of:
        first, second = (asyncio.create_task(of.backend.call(INVOCATION)) for _ in range(2))
        await came.wait()
        await of.backend.aclose()
        assert (await refusal(second)).code is ErrorCode.BACKEND_UNAVAILABLE
        failure = (await first).failure
        assert failure is not None
        assert (failure.outcome, of.runs) == ("unknown", 1)
