"""Why a call failed or was refused, as its line and its span say it. All of it is ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.gateways import config
from tests.flow.toolserver import Handler, ToolServer, always, silence
from tests.flow.watching import watched
from tests.protocols.mcp.requests import call
from tests.protocols.mcp.server_double import Talk, serving
from tests.streams import Request, http_reply
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

CANARY = "canary-4711"
NAMES = ("outcome", "reason", "code", "tool_status", "tool_code", "replayed", "missing_scopes", "detail")
Said = dict[str, Any]


def said(line: Said) -> Said:
    return {name: line[name] for name in NAMES if name in line}


def failure(**error: Any) -> Any:
    async def handle(received: Request) -> bytes:
        body = {"call_id": received.call["call_id"], "success": False, "error": {"message": CANARY, **error}}
        return http_reply(200, body)

    return handle


UNAVAILABLE = {"outcome": "refused", "reason": "backend_unavailable"}
FAILED = {"outcome": "tool_error", "tool_status": 200}
TROUBLES: dict[str, tuple[Handler, Said]] = {
    "polite": (failure(), FAILED),
    "with a code": (failure(code="no_such_order"), FAILED | {"tool_code": "no_such_order"}),
    "with a text for a code": (failure(code=f"no order {CANARY}"), FAILED),
    "a crash": (always(http_reply(500, CANARY.encode())), FAILED | {"tool_status": 500}),
    "busy": (always(http_reply(429, {"message": CANARY})), FAILED | {"tool_status": 429, "code": "backend_busy"}),
    "broken": (always(http_reply(200, CANARY.encode())), FAILED | {"code": "broken_answer"}),
    "another's credential": (
        always(http_reply(401, {"message": CANARY})),
        UNAVAILABLE | {"tool_status": 401, "detail": "the tool server refused our credential (401)"},
    ),
    "silent": (silence, {"outcome": "timeout"}),
}


@pytest.mark.parametrize(("handler", "expected"), TROUBLES.values(), ids=TROUBLES)
async def test_the_line_says_why_a_tool_has_failed(server: ToolServer, handler: Handler, expected: Said) -> None:
    server.handler = handler
    route = {"tools": "*", "backend": "scripted", "timeout": "300ms"}
    async with watched(config({"scripted": server.url}, [route])) as gateway:
        await gateway.caller.call("oxp", "Echo.Say", {"n": CANARY})
    assert [said(line) for line in gateway.lines] == [expected]
    assert CANARY not in gateway.text


async def test_a_repetition_and_a_look_are_told_from_a_run(server: ToolServer) -> None:
    """A look at a call that has failed is not ok, whatever its status."""
    server.handler = failure(code=7)
    async with watched(config({"scripted": server.url})) as gateway:
        for _ in range(2):
            await gateway.caller.call("oxp", "Echo.Say", call_id="k")
        await gateway.caller.http.get("/calls/k")
    run = FAILED | {"tool_code": "7"}
    assert [said(line) for line in gateway.lines] == [run, run | {"replayed": True}, run]
    assert [line["operation"] for line in gateway.lines] == ["call", "call", "poll"]


@pytest.mark.parametrize("strict", [False, True])
async def test_the_line_names_the_scopes_that_were_missing(server: ToolServer, strict: bool) -> None:
    route = {"tools": "*", "backend": "scripted", "scopes": ["a", "b", "c"]}
    auth = {"jwt": [{"secret": SECRET}]}
    text = config({"scripted": server.url}, [route], auth=auth, errors={"strict": strict})
    async with watched(text) as gateway:
        await gateway.caller.with_token(token(scope="b")).call("oxp", "Echo.Say")
    [line] = gateway.lines
    assert line["missing_scopes"] == "a c"


async def test_the_code_of_an_error_of_json_rpc_is_in_the_line() -> None:
    async def script(talk: Talk) -> None:
        code, status = talk.message["params"]["arguments"]["of"]
        await talk.fail(code, CANARY, status)

    async with serving("modern", script) as double:
        backend = {"protocol": "mcp", "url": double.url, "toolkit": "Far"}
        async with watched(config({"far": backend})) as gateway:
            for of in ((-32603, 200), (-32000, 500), (-32602, 200)):
                await call(gateway.caller, "Far_find_it", {"of": of})
    found = [(line["tool_code"], line["tool_status"]) for line in gateway.lines]
    assert found == [("-32603", 200), ("-32000", 500), ("-32602", 200)]
    assert CANARY not in gateway.text
