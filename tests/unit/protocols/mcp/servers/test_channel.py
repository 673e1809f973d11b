"""Answers of MCP servers in streams of events: cut anywhere, broken off and resumed, with requests of the server's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.jsontext import encode
from gateway.core.model import Invocation, ToolFailure
from tests.protocols.mcp.server_double import (
    END,
    EVENTS,
    IDEMPOTENT,
    INVOCATION,
    Script,
    Talk,
    chunk,
    event,
    facing,
    stay,
)

pytestmark = pytest.mark.anyio

OFF = "The connection to the tool server broke; the tool may have run."
ERAS = ["modern", "legacy"]
PRIMED = event("", "id: e1", "retry: 100")
PROGRESS = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})


async def failure_of(era: str, script: Script, invocation: Invocation = INVOCATION, **keys: Any) -> ToolFailure:
    async with facing(era, script, keys=keys) as (backend, _):
        failure = (await backend.call(invocation)).failure
    assert failure is not None
    return failure


def response(talk: Talk) -> str:
    return json.dumps(talk.response())


STREAMS = [
    "data: {}\n\n",
    ": hello\n\ndata\n\nid: 7\ndata:\n\ndata: {}\n\n",
    "event: error\nretry: 5\ndata: {}\n\n",
    'data: no JSON\n\ndata: [1]\n\ndata: {{"jsonrpc":"2.0","method":"notifications/message"}}\n\ndata: {}\n\n',
]


@pytest.mark.parametrize("template", STREAMS, ids=repr)
async def test_mcp_61_a_response_is_found_however_its_stream_is_written_and_cut(template: str) -> None:
    async def script(talk: Talk) -> None:
        text = template.format(response(talk)).encode()
        if len(double.ran) == 1:
            await talk.stream(text)
        else:
            await talk.stream(*(text[i : i + 1] for i in range(len(text))))

    async with facing("modern", script) as (backend, double):
        assert [(await backend.call(INVOCATION)).value for _ in range(2)] == ["seven", "seven"]


async def test_mcp_61_a_line_may_be_as_long_as_an_answer_and_no_longer() -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(event(talk.response({"content": [{"type": "text", "text": "x" * 10_000_000}]})))

    async with facing("modern", script, keys={"max_response": "11MiB"}) as (backend, _):
        assert len((await backend.call(INVOCATION)).value) == 10_000_000
    assert (await failure_of("modern", script)).code == "result_too_large"


@pytest.mark.parametrize(("piece", "unit"), [(PROGRESS, "bytes"), (b"\n", "lines")], ids=["bytes", "lines"])
async def test_mcp_61_a_stream_without_end_is_cut_off_with_a_line_in_the_log(
    piece: bytes, unit: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(talk: Talk) -> None:
        await talk.send(EVENTS)
        while True:
            await talk.send(chunk(piece * (10_000 // len(piece))))

    assert (await failure_of("modern", script, max_response="100KiB")).code == "result_too_large"
    [line] = [each for each in caplog.records if each.getMessage() == "a tool server did not complete its answer"]
    assert "The stream of events passes" in line.__dict__["reason"]
    assert unit in line.__dict__["reason"]


async def test_mcp_61_an_answer_may_be_indented_json_of_many_lines() -> None:
    async def script(talk: Talk) -> None:
        text = json.dumps(talk.response({"content": [], "structuredContent": {"result": [1] * 20_000}}), indent=1)
        await talk.stream(b"".join(b"data: %b\n" % line for line in text.encode().split(b"\n")) + b"\n")

    async with facing("modern", script) as (backend, _):
        value = (await backend.call(INVOCATION)).value
    assert json.loads(encode(value)) == {"result": [1] * 20_000}


async def test_a_connection_is_used_again_after_a_stream_that_ends_later() -> None:
    async def script(talk: Talk) -> None:
        await talk.send(EVENTS + chunk(event(talk.response())))
        await release.wait()
        await talk.send(chunk(PROGRESS) + END)

    release = asyncio.Event()
    async with facing("modern", script) as (backend, double):
        assert (await backend.call(INVOCATION)).value == "seven"
        release.set()
        for _ in range(20):
            await backend.call(INVOCATION)
    assert double.connections < 10


WRONG = [
    {"jsonrpc": "2.0", "id": 99, "result": {}},
    {"jsonrpc": "2.0", "id": True, "result": {}},
    {"jsonrpc": "2.0", "id": "99", "result": {}},
    {"jsonrpc": "2.0", "id": None, "result": {}, "error": None},
]


async def test_mcp_75_a_response_whose_id_is_a_string_and_whose_error_is_null_is_one() -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(event(talk.response() | {"id": str(talk.id), "error": None}))

    async with facing("modern", script) as (backend, _):
        assert (await backend.call(INVOCATION)).value == "seven"


async def test_mcp_75_the_first_right_response_of_a_stream_counts() -> None:
    async def script(talk: Talk) -> None:
        second = talk.response({"content": []})
        await talk.stream(*map(event, WRONG), event(talk.response()), event(second), PROGRESS)

    async with facing("modern", script) as (backend, _):
        assert (await backend.call(INVOCATION)).value == "seven"


async def test_mcp_75_an_error_without_an_id_answers() -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(event({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "Full."}}))

    assert (await failure_of("modern", script)).message == "Full."


@pytest.mark.parametrize("era", ERAS)
async def test_mcp_62_a_stream_without_ids_that_ends_leaves_the_outcome_unknown(era: str) -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(PROGRESS, b'data: {"jsonrpc"')

    for invocation, runs in ((INVOCATION, 1), (IDEMPOTENT, 2)):
        async with facing(era, script) as (backend, double):
            failure = (await backend.call(invocation)).failure
            assert failure is not None
            assert (failure.message, failure.outcome, failure.can_retry) == (OFF, "unknown", invocation.idempotent)
            assert len(double.ran) == runs
            assert len({talk.id for talk in double.ran}) == runs


async def test_mcp_62_a_legacy_stream_with_ids_is_resumed_where_it_ended() -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(PRIMED)

    async def resumed(talk: Talk) -> None:
        asked.append(talk.request.header("last-event-id"))
        if len(asked) < 5:  # each of them brings something new
            await talk.stream(event("", f"id: g{len(asked)}", "retry: 0"))
        else:
            await talk.stream(event(double.ran[0].response(), "id: last"))

    asked: list[Any] = []
    async with facing("legacy", script, {"GET": resumed}) as (backend, double):
        assert (await backend.call(INVOCATION)).value == "seven"
        assert len(double.ran) == 1
    assert asked == ["e1", "g1", "g2", "g3", "g4"]
    head = double.of("GET")[0].request
    assert (head.header("mcp-session-id"), head.header("accept")) == ("s1", "text/event-stream")


@pytest.mark.parametrize(("script_of_get", "times"), [(lambda talk: talk.stream(), 3), (lambda talk: talk.answer(), 1)])
async def test_mcp_62_a_stream_that_brings_nothing_is_given_up(script_of_get: Script, times: int) -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(PRIMED)

    async with facing("legacy", script, {"GET": script_of_get}) as (backend, double):
        failure = (await backend.call(INVOCATION)).failure
        assert (len(double.of("GET")), len(double.ran)) == (times, 1)
    assert failure is not None
    assert (failure.message, failure.outcome) == (OFF, "unknown")


async def test_mcp_62_a_stream_is_not_resumed_beyond_the_deadline_or_at_a_modern_server() -> None:
    async def script(talk: Talk) -> None:
        await talk.stream(event("", "id: e1", "retry: 600000"))

    for era in ERAS:
        async with facing(era, script) as (backend, double):
            assert (await backend.call(INVOCATION)).failure is not None
            assert not double.of("GET")


async def test_mcp_63_requests_of_the_server_are_answered_at_once() -> None:
    async def script(talk: Talk) -> None:
        url = {"mode": "url", "url": "https://example.com/grant", "elicitationId": "g"}
        asked: list[dict[str, Any]] = [
            {"id": "a", "method": "ping"},
            {"id": 0, "method": "sampling/createMessage", "params": {}},
            {"id": 1, "method": "roots/list"},
            {"id": 2, "method": "elicitation/create", "params": {"mode": "form", "requestedSchema": {}}},
            {"id": 3, "method": "elicitation/create", "params": url},
            {"id": {}, "method": "ping"},
            {"id": "x" * 1000, "method": "ping"},
        ]
        await talk.send(EVENTS)
        for each in asked:
            await talk.send(chunk(event({"jsonrpc": "2.0"} | each)))
        await double.until(lambda: len(answers()) == 5)
        result = {"content": [{"type": "text", "text": "Not allowed."}], "isError": True}
        await talk.send(chunk(event(talk.response(result))) + END)

    def answers() -> list[Talk]:
        return [talk for talk in double.told if "method" not in talk.message and talk.request.body]

    async with facing("legacy", script) as (backend, double):
        failure = (await backend.call(INVOCATION)).failure
    said = {talk.id: talk.message.get("result", talk.message.get("error", {}).get("code")) for talk in answers()}
    assert said == {"a": {}, 0: -32601, 1: -32601, 2: -32601, 3: {"action": "cancel"}}
    assert {talk.request.header("mcp-session-id") for talk in answers()} == {"s1"}
    assert failure is not None
    assert failure.extras == {
        "missing_requirements": {"authorization": [{"id": "g", "url": "https://example.com/grant"}]}
    }


async def test_mcp_64_a_deadline_ends_the_stream_of_a_modern_server_and_cancels_at_a_legacy_one() -> None:
    async def script(talk: Talk) -> None:
        try:
            await talk.send(EVENTS + chunk(PROGRESS))
            await talk.until_closed()
        finally:
            closed.set()

    short = replace(INVOCATION, timeout_s=0.25)
    for era in ERAS:
        closed = asyncio.Event()
        async with facing(era, script) as (backend, double):
            await backend.list_tools()  # agrees with the server and leaves a connection open
            failure = (await backend.call(short)).failure
            await closed.wait()
            assert failure is not None
            assert (failure.outcome, failure.can_retry) == ("timeout", False)
            if era == "legacy":
                await double.until(lambda: len(double.of("notifications/cancelled")) == 1)
                assert double.of("notifications/cancelled")[0].message["params"]["requestId"] == double.ran[0].id
            else:
                assert not double.of("notifications/cancelled")


@pytest.mark.parametrize("script", [stay, lambda talk: talk.send(EVENTS)], ids=["silent", "streaming"])
async def test_mcp_64_a_call_that_is_not_waited_for_is_cancelled_at_its_server(script: Script) -> None:
    for era in ERAS:
        async with facing(era, script) as (backend, double):
            calling = asyncio.create_task(backend.call(INVOCATION))
            await double.until(lambda: len(double.ran) == 1)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            if era == "legacy":
                await double.until(lambda: len(double.of("notifications/cancelled")) == 1)
            else:
                assert not double.of("notifications/cancelled")
