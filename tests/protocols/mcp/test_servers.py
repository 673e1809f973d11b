"""MCP servers behind the whole gateway: what callers of each dialect get from them."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from itertools import cycle
from typing import Any

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import config, listed_until
from tests.protocols.mcp.requests import ask, call, call_in, session
from tests.protocols.mcp.server_double import Double, Script, Talk, serving
from tests.streams import http_reply

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "annotations": {"priority": 0.5}}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a b.txt", "name": "a b.txt", "size": 7}
EMBEDDED = {"type": "resource", "resource": {"uri": "test://x", "mimeType": "text/plain", "text": "é"}}
TEXT = {"type": "text", "text": "seven"}
RESULTS: list[tuple[dict[str, Any], Any]] = [
    ({"content": [IMAGE]}, {"content": [IMAGE]}),
    ({"content": [TEXT, AUDIO, LINK, EMBEDDED]}, {"content": [TEXT, AUDIO, LINK, EMBEDDED]}),
    ({"content": [TEXT, TEXT]}, {"content": [TEXT, TEXT]}),
    ({"content": [IMAGE], "structuredContent": {"pixels": 1}}, {"pixels": 1}),
    ({"content": [TEXT]}, "seven"),
    ({"content": []}, None),
]


def listing(name: str) -> Script:
    """Lists one tool."""

    async def script(talk: Talk) -> None:
        await talk.answer({"tools": [{"name": name, "inputSchema": {"type": "object"}}]})

    return script


def mcp(double: Double, **keys: Any) -> dict[str, Any]:
    return {"protocol": "mcp", "url": double.url, "toolkit": "Far", **keys}


NULLS: list[tuple[dict[str, Any], Any]] = [
    ({"content": [TEXT], "structuredContent": None, "isError": None, "_meta": None}, "seven"),
    ({"content": None, "structuredContent": {"pixels": 1}}, {"pixels": 1}),
]


async def test_a_member_that_is_null_does_not_hide_the_others_of_a_result(start: Start) -> None:
    """Up to 2025-11-25; since then null is a value. Ours: what models of pydantic write if nobody tells them."""

    async def script(talk: Talk) -> None:
        await talk.answer(NULLS[talk.message["params"]["arguments"]["n"]][0])

    async with serving("legacy", script, {"tools/list": listing("show")}) as double:
        caller = (await start(config({"far": mcp(double)}))).caller
        for number, (_, value) in enumerate(NULLS):
            assert (await caller.call("oxp", "Far.show", {"n": number})).value == value


@ERAS
async def test_mcp_69_blocks_are_a_value_for_other_dialects_and_blocks_for_mcp(era: str, start: Start) -> None:
    async def script(talk: Talk) -> None:
        await talk.answer({"resultType": "complete", **RESULTS[talk.message["params"]["arguments"]["n"]][0]})

    async with serving(era, script, {"tools/list": listing("show")}) as double:
        caller = (await start(config({"far": mcp(double)}))).caller
        begun = await session(caller)
        for number, (sent, value) in enumerate(RESULTS):
            for dialect in ("oxp", "otc", "rfc"):
                assert (await caller.call(dialect, "Far.show", {"n": number})).value == value
            modern = (await call(caller, "Far_show", {"n": number})).json()["result"]
            legacy = (await call_in(caller, begun, "Far_show", {"n": number}, id_=number + 1)).json()["result"]
            for answered in (modern, legacy):
                assert {key: answered[key] for key in ("content", "structuredContent") if key in answered} == sent
                assert answered.get("isError", False) is False


async def test_mcp_56_a_server_that_is_gone_takes_nothing_else_along(start: Start) -> None:
    async def script(talk: Talk) -> None:
        await talk.answer({"content": [{"type": "text", "text": talk.message["params"]["name"]}]})

    async with AsyncExitStack() as stack:
        dying, doubles = AsyncExitStack(), {}
        for name, era in (("one", "modern"), ("two", "legacy"), ("three", "modern"), ("four", "legacy")):
            living = dying if name == "four" else stack
            doubles[name] = await living.enter_async_context(serving(era, script, {"tools/list": listing(name)}))
        backends = {name: mcp(double) for name, double in doubles.items()}
        caller = (await start(config(backends))).caller
        ids = [f"Far.{name}@1.0.0" for name in sorted(doubles)]
        assert (await caller.list("oxp")).ids == ids
        assert (await caller.call("oxp", "Far.four")).value == "four"

        await dying.aclose()
        assert (await caller.list("oxp")).ids == ids
        for name in ("one", "two", "three"):
            assert (await caller.call("otc", f"Far.{name}")).value == name
            assert (await call(caller, f"Far_{name}")).json()["result"]["content"] == [{"type": "text", "text": name}]
        refused = await caller.call("oxp", "Far.four")
        assert (refused.status, int(refused.headers["retry-after"]) > 0) == (400, True)
        told = (await call(caller, "Far_four")).json()["result"]
        assert told["isError"] is True
        assert told["_meta"]["toolgate/error"]["can_retry"] is True
        assert told["_meta"]["toolgate/error"]["retry_after_ms"] > 0


@ERAS
async def test_a_tool_that_has_another_name_now_is_listed_under_it_at_once(era: str, start: Start) -> None:
    """The list is asked for when a call shows that it is old, long before it is due."""

    async def script(talk: Talk) -> None:
        said = f"Unknown tool: {talk.message['params']['name']}"
        if talk.message["params"]["name"] == name:
            await talk.answer()
        elif era == "modern":
            await talk.fail(-32602, said)
        else:  # as SDKs do
            await talk.answer({"content": [{"type": "text", "text": said}], "isError": True})

    name = "old"
    async with serving(era, script, {"tools/list": lambda talk: listing(name)(talk)}) as double:
        caller = (await start(config({"far": mcp(double, discovery={"refresh": "1d"})}))).caller
        assert (await caller.call("oxp", "Far.old")).value == "seven"
        name = "new"
        assert (await caller.call("oxp", "Far.old")).status == (400 if era == "modern" else 200)
        await listed_until(caller, lambda listed: listed.ids == ["Far.new@1.0.0"])
        assert (await caller.call("oxp", "Far.new")).value == "seven"
        assert (await caller.call("oxp", "Far.old")).document["code"] == "tool_not_found"


@ERAS
async def test_an_id_of_a_session_counts_only_with_the_answer_to_initialize(era: str, start: Start) -> None:
    async def script(talk: Talk) -> None:
        sent.append(talk.request.header("mcp-session-id"))
        await talk.answer(mcp_session_id="another")

    sent: list[str | None] = []
    async with serving(era, script) as double:
        caller = (await start(config({"far": mcp(double)}))).caller
        for _ in range(3):
            assert (await caller.call("oxp", "Far.find_it")).value == "seven"
    assert len(set(sent)) == 1
    assert sent[0] == (None if era == "modern" else "s1")


SAID = "The board is archived; open it first."


async def test_what_an_error_says_reaches_the_caller_whatever_its_status(start: Start) -> None:
    async def script(talk: Talk) -> None:
        error = talk.message["params"]["arguments"]
        await talk.fail(error["code"], SAID, error["status"])

    async with serving("modern", script) as double:
        caller = (await start(config({"far": mcp(double, breaker={"failures": 100})}))).caller
        for status, code in zip((400, 409, 422, 429, 500, 502, 503), cycle((-32600, -32603, -32000, 7))):
            error = {"status": status, "code": code}
            assert (await caller.call("oxp", "Far.find_it", error)).error["message"] == SAID, error
            result = (await call(caller, "Far_find_it", error)).json()["result"]
            assert (result["isError"], result["content"]) == (True, [{"type": "text", "text": SAID}])


async def test_a_result_that_is_too_large_says_which_limit_it_passes(start: Start) -> None:
    async def script(talk: Talk) -> None:
        if talk.message["params"]["arguments"]:
            await talk.stream(*[f": {'x' * 1000}\n\n".encode()] * 200)
        else:
            await talk.answer({"content": [{"type": "text", "text": "x" * 20_000}]})

    async with serving("modern", script) as double:
        caller = (await start(config({"far": mcp(double, max_response="16KiB")}))).caller
        for arguments in ({}, {"streams": True}):
            error = (await caller.call("oxp", "Far.find_it", arguments)).error
            assert (error["code"], error["can_retry"]) == ("result_too_large", False)
            assert "max_response of its backend is 16384 bytes" in error["message"]


ICONS = [{"src": "https://far.example/i.png", "sizes": ["48x48"]}, {"src": "data:image/png;base64,AAAA"}]
BAD_ICONS = [{"src": "http://far.example/i.png"}, {"src": "data:image/svg+xml;base64,AAAA"}, {"src": 7}, "i", {}]
META: dict[str, Any] = {"far.example/x": {"a": [1]}, "ui": {"visibility": ["model"]}}
NOT_OURS = {"toolgate/call_id": "x", "toolgate/error": {}, "toolgate/id": "B.c@1.0.0", "io.modelcontextprotocol/x": 1}
PAGES = {"openai/outputTemplate": "ui://x", "ui/resourceUri": "ui://x"}


@ERAS
async def test_what_a_server_says_beside_values_is_passed_on_to_callers_of_mcp(era: str, start: Start) -> None:
    """MCP, `_meta`, Icons, and structuredContent of failures; within bounds, which are ours."""
    long = {"far.example/long": "x" * 17_000}

    async def script(talk: Talk) -> None:
        how = talk.message["params"]["arguments"]["how"]
        meta = long if how == "long" else {**META, "ui": {**META["ui"], "resourceUri": "ui://x"}, **NOT_OURS, **PAGES}
        result = {"content": [TEXT], "structuredContent": {"n": 1}, "_meta": meta}
        await talk.answer(result | ({"isError": True} if how == "fails" else {}))

    async def listed(talk: Talk) -> None:
        tool = {"name": "a", "inputSchema": {"type": "object"}, "icons": [*BAD_ICONS, *ICONS], "_meta": META | NOT_OURS}
        await talk.answer({"tools": [tool | {"annotations": {"title": "A tool"}}]})

    async with serving(era, script, {"tools/list": listed}) as double:
        caller = (await start(config({"far": mcp(double)}))).caller
        begun = await session(caller)
        tools = (await ask(caller, "tools/list", {})).json()["result"]["tools"]
        assert [tools[0][name] for name in ("icons", "annotations")] == [ICONS, {"title": "A tool"}]
        assert tools[0]["_meta"] == META | {"toolgate/id": "Far.a@1.0.0"}
        for number, how in enumerate(("works", "fails", "long")):
            for result in (
                (await call(caller, "Far_a", {"how": how})).json()["result"],
                (await call_in(caller, begun, "Far_a", {"how": how}, id_=number + 1)).json()["result"],
                (await call(caller, "Far_a", {"how": how}, headers={"idempotency-key": how})).json()["result"],
                (await call(caller, "Far_a", {"how": how}, headers={"idempotency-key": how})).json()["result"],
            ):
                assert result["structuredContent"] == {"n": 1}
                assert result.get("isError", False) is (how == "fails")
                meta = result["_meta"]
                assert meta.pop("toolgate/call_id") != "x"
                assert meta.pop("toolgate/error", {}).get("code", "tool_error") == "tool_error"
                meta.pop("io.modelcontextprotocol/serverInfo", None)
                assert meta == ({} if how == "long" else META)
            answer = await caller.call("oxp", "Far.a", {"how": how})
            assert "_meta" not in answer.document


TABLE = "1,2,3\n" * 60_000
ROWS = json.dumps([{"row": number} for number in range(20_000)])
ODD: list[tuple[dict[str, Any], Any, int]] = [
    ({"content": [{"type": "text", "text": TABLE}]}, TABLE, 200),
    ({"content": [{"type": "text", "text": ROWS}]}, ROWS, 200),
    ({"content": None, "structuredContent": {"a": 1}}, {"a": 1}, 200),  # as Go writes no blocks
    ({"content": [TEXT], "resultType": None, "isError": None, "_meta": None}, "seven", 200),
    ({"content": [TEXT]}, "seven", 201),
    ({"content": [TEXT]}, "seven", 202),
]


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
async def test_results_as_real_servers_write_them_are_not_lost(start: Start, events: bool) -> None:
    """A table, or JSON as text, holds more commas and brackets than values may be read here at once."""

    async def script(talk: Talk) -> None:
        result, _, status = ODD[talk.message["params"]["arguments"]["n"]]
        body = json.dumps({"jsonrpc": "2.0", "id": talk.id, "result": result}).encode()
        if events:
            await talk.stream(b"data: %b\n\n" % body)
        else:
            await talk.send(http_reply(status, body, content_type="application/json"))

    async with serving("legacy", script, {"tools/list": listing("show")}) as double:
        caller = (await start(config({"far": mcp(double)}))).caller
        for number, (sent, value, _) in enumerate(ODD):
            assert (await caller.call("oxp", "Far.show", {"n": number})).value == value
            answered = (await call(caller, "Far_show", {"n": number})).json()["result"]
            assert answered["content"] == (sent["content"] or [])
