"""What is written down of a request, and by what name it is known on its way.

X-Request-ID is a custom of the trade, traceparent is W3C Trace Context; the fields of the line are ours.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.flow.builds import Builds
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import PUBLIC_URL, config, running, until
from tests.flow.toolserver import ToolServer, tool
from tests.flow.watching import Tap, tapped, watched
from tests.support import processes
from tests.support.otlp import collecting
from tests.support.processes import demo_server
from tests.support.tokens import SECRET, api_key, token
from tests.unit.net.client.scripted import serving
from tests.unit.protocols.rap.calling_back import OK, Toolset

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"
AUTH = {"jwt": [{"secret": SECRET}], "api_keys": [api_key("job", KEY)]}
CANARY = "canary-4711"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
WHEN = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"
FIXED = {"level": "info", "logger": "gateway.access", "message": "request", "client": "127.0.0.1"}


def split(line: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a line says that is the same each time, and what is measured."""
    measured: dict[str, Any] = {name: line.pop(name) for name in ("time", "duration_ms", "tool_ms") if name in line}
    assert re.fullmatch(WHEN, measured["time"])
    assert measured["duration_ms"] >= measured.get("tool_ms", 0) >= 0
    return line, measured


async def test_a_call_is_one_line(server: ToolServer) -> None:
    async with watched(config({"scripted": server.url}, auth=AUTH)) as gateway:
        known = gateway.caller.with_token(token())
        headers = {"x-request-id": "mine"}
        answer = await known.call("oxp", "Echo.Say", {"n": CANARY}, headers=headers, trace_id=CANARY)
    [line] = gateway.lines
    said, measured = split(line)
    assert said.pop("toolgate_call_id") == answer.headers["toolgate-call-id"]
    size_in = said.pop("bytes_in")
    assert said == FIXED | {
        "request_id": "mine",
        "operation": "call",
        "route": "/tools/call",
        "status": 200,
        "bytes_out": len(answer.body),
        "dialect": "oxp",
        "principal": "jwt::ada",
        "tool": "Echo.Say",
        "version": "1.0.0",
        "backend": "scripted",
        "outcome": "ok",
    }
    assert 50 < size_in < 200
    assert measured["tool_ms"] > 0
    assert CANARY not in gateway.text


COUNT, MAIL, DIARY = (
    {"tool": tool_id, "version": "1.0.0", "backend": "scripted"} for tool_id in ("Count.Up", "Mail.Read", "Diary.Read")
)
REFUSED: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an unknown caller": (
        {"tool_id": "Echo.Say", "headers": {"authorization": f"Bearer {CANARY}"}},
        {"status": 401, "outcome": "refused", "reason": "api_key"},
    ),
    "no such tool": (
        {"tool_id": f"No.{CANARY}".replace("-", "")},
        {"status": 400, "outcome": "refused", "reason": "tool_not_found", "principal": "key:job"},
    ),
    "wrong input": (
        {"tool_id": "Count.Up", "arguments": {"n": CANARY}},
        {"status": 422, "outcome": "invalid", "reason": "invalid_arguments", "principal": "key:job"} | COUNT,
    ),
    "a tool for others": (
        {"tool_id": "Mail.Read"},
        {"status": 403, "outcome": "refused", "reason": "forbidden", "principal": "key:job", "missing_scopes": "mail"}
        | MAIL,
    ),
    "a user is missing": (
        {"tool_id": "Diary.Read"},
        {"status": 400, "outcome": "refused", "reason": "missing_requirements", "principal": "key:job"} | DIARY,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_call_is_one_line_with_what_was_known_of_it(server: ToolServer, name: str) -> None:
    asked, expected = REFUSED[name]
    server.tools += [tool("Mail.Read"), tool("Diary.Read", requirements={"user_id": True})]
    rest = {"tools": "*", "backend": "scripted"}
    routes = [rest | {"tools": "Mail.*", "scopes": ["mail"]}, rest]
    headers = {"oxp-api-key": KEY} if "headers" not in asked else {}
    async with watched(config({"scripted": server.url}, routes, auth=AUTH)) as gateway:
        await gateway.caller.call("oxp", **({"headers": headers} | asked))
    [line] = gateway.lines
    said, measured = split(line)
    for unsaid in ("bytes_in", "bytes_out", "request_id", "operation", "route", "dialect"):
        said.pop(unsaid)
    assert said == FIXED | expected
    assert "tool_ms" not in measured
    assert CANARY not in gateway.text


FROM, PROXY = "203.0.113.7", "10.1.2.3"


@pytest.mark.parametrize(
    ("proxies", "client"), [([], "127.0.0.1"), (["127.0.0.0/8"], PROXY), (["127.0.0.0/8", "10.0.0.0/8"], FROM)]
)
async def test_every_line_has_the_client_address(server: ToolServer, proxies: list[str], client: str) -> None:
    served = {"trusted_proxies": proxies, "allowed_hosts": ["gateway"], "cors": {"origins": ["https://page.example"]}}
    headers = {"x-forwarded-for": f"198.51.100.1, {FROM}, {PROXY}"}
    async with watched(config({"scripted": server.url}, server=served)) as gateway:
        http = gateway.caller.http
        await gateway.caller.call("oxp", "Echo.Say", headers=headers)
        await gateway.caller.list("oxp", headers=headers)
        for path in ("/calls/x", "/challenges/x", "/nowhere"):
            await http.get(path, headers=headers)
        await http.post("/callbacks/x", headers=headers)
        await http.get("/tools", headers=headers | {"host": "evil.example"})
        asked = {"origin": "https://page.example", "access-control-request-method": "POST"}
        await http.options("/tools/call", headers=headers | asked)
    assert [line["client"] for line in gateway.lines] == [client] * 8


async def test_a_limited_request_is_one_line(server: ToolServer, caplog: pytest.LogCaptureFixture) -> None:
    """A flood must not cost two lines each, so nothing else speaks of it."""
    limits = [{"name": "twice", "key": "caller", "rate": "1/d", "burst": 2, "operations": ["call", "list", "poll"]}]
    async with watched(config({"scripted": server.url}, rate_limits=limits)) as gateway:
        caplog.set_level(logging.INFO, "gateway")
        for _ in range(2):
            await gateway.caller.call("oxp", "Echo.Say")
            await gateway.caller.list("oxp")
        await gateway.caller.http.get("/calls/x")
    shown = [(line["operation"], line["status"], line.get("reason")) for line in gateway.lines]
    refused = [("call", 429, "twice"), ("list", 429, "twice"), ("poll", 429, "twice")]
    assert shown == [("call", 200, None), ("list", 200, None), *refused]
    assert not [record for record in caplog.records if record.name == "gateway.pipeline"]


async def test_lists_polls_and_cancellations_are_a_line_each(server: ToolServer) -> None:
    async with watched(config({"scripted": server.url})) as gateway:
        listed = await gateway.caller.list("rfc")
        called = await gateway.caller.call("otc", "Echo.Say", {"n": CANARY}, call_id="mine")
        ours = called.headers["toolgate-call-id"]
        polled = await gateway.caller.send("otc", "kept", "GET", f"/calls/{ours}")
        cancelled = await gateway.caller.send("otc", "kept", "DELETE", "/calls/mine")
    lines = [split(line)[0] for line in gateway.lines]
    assert [line.pop("call_id", None) for line in lines] == [None, "mine", ours, "mine"]
    assert [line.pop("toolgate_call_id", None) for line in lines] == [None, ours, ours, ours]
    common = FIXED | {"principal": "anonymous", "status": 200, "bytes_in": 0, "outcome": "ok"}
    expected = [
        {"operation": "list", "route": "/tools", "dialect": "rfc", "bytes_out": len(listed.body)},
        {"operation": "poll", "route": "/calls/{call_id}", "dialect": "otc", "bytes_out": len(polled.body)},
        {"operation": "cancel", "route": "/calls/{call_id}", "dialect": "otc", "bytes_out": len(cancelled.body)}
        | {"status": 202},
    ]
    assert [line.pop("request_id") for line in lines if line["operation"] != "call"]
    assert [line for line in lines if line["operation"] != "call"] == [common | each for each in expected]
    assert CANARY not in gateway.text


async def test_callbacks_are_a_line_each_without_their_path_or_their_content() -> None:
    toolset = Toolset(OK)
    async with (
        serving(toolset) as server,
        watched(config({"builds": {"protocol": "callback", "url": server.url}})) as gateway,
    ):
        invoked = await Builds(gateway.running, toolset, server.url).begin()
        for path in (invoked.path, f"/callbacks/{CANARY}"):
            await invoked.post(invoked.message(text=CANARY), path, **{"x-request-id": "theirs"})
    secret = invoked.path.rpartition("/")[2]
    taken, refused = [split(line)[0] for line in gateway.lines if line["operation"] == "callback"]
    assert (taken["bytes_in"] > 0, refused.pop("bytes_in"), refused.pop("bytes_out") > 0) == (True, 0, True)
    common = FIXED | {"operation": "callback", "route": "/callbacks/{token}", "request_id": "theirs"}
    measured = {"bytes_in": taken["bytes_in"], "bytes_out": 2}
    assert taken.pop("toolgate_call_id") == f"tg-{secret.partition('.')[0]}"
    assert taken == common | measured | {"status": 200, "backend": "builds", "outcome": "ok"}
    assert refused == common | {"status": 404, "outcome": "refused", "reason": "not_found"}
    assert CANARY not in gateway.text
    assert secret not in gateway.text


@pytest.mark.parametrize("sent", ["mine", "A.b_c-d/e+f=g@h~i:j", "x" * 128])
async def test_a_request_id_is_sent_back(start: Start, server: ToolServer, sent: str) -> None:
    caller = (await start(config({"scripted": server.url}))).caller
    headers = {"x-request-id": sent}
    for answer in (
        await caller.call("oxp", "Echo.Say", headers=headers),
        await caller.call("oxp", "No.Tool", headers=headers),
        await caller.list("oxp", headers=headers),
    ):
        assert answer.headers.get_list("x-request-id") == [sent]
    assert server.calls[0].header("x-request-id") == sent


@pytest.mark.parametrize("sent", [None, "two words", 'a"b', "x" * 129, "\xe9", "a,b"])
async def test_what_is_no_request_id_is_replaced(start: Start, server: ToolServer, sent: str | None) -> None:
    caller = (await start(config({"scripted": server.url}))).caller
    headers = [] if sent is None else [(b"x-request-id", sent.encode("latin-1"))]
    made = set()
    for method, path in (("GET", "/oxp/tools"), ("POST", "/oxp/call"), ("GET", "/calls/x"), ("POST", "/callbacks/x")):
        answer = await caller.http.request(method, path, headers=headers)
        made.add(answer.headers["x-request-id"])
    assert len(made) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)


CRUMBS = {
    "owner_id": "00000000-0000-0000-0000-000000000001",
    "agent_id": "00000000-0000-0000-0000-00000000d009",
    "toolkit": "Crumbs",
}
CALLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "otc": ("Text.Echo", {"value": 1}),
    "oxp": ("Notes.List", {}),
    "callback": ("builds.lint", {}),
    "rcrt": ("Crumbs.echo", {"message": "x"}),
}


async def heard(tap: Tap, name: str) -> str:
    """The head of the request of that id, once it was sent."""
    await until(lambda: bool(tap.posts(name.encode())))
    [head] = tap.posts(name.encode())
    return head


async def test_a_trace_goes_on_to_every_kind_of_tool_server(fleet: Mapping[str, str]) -> None:
    """Spans are recorded here: that of the tool server is the parent, and an outcome found later is linked."""
    sent = {"prefer": "respond-async", "traceparent": PARENT, "tracestate": "vendor=a1"}
    parents = {}
    with collecting() as collector:
        async with (
            serving(Toolset(OK)) as toolset,
            demo_server("rcrt") as server,
            tapped(fleet["otc"]) as otc,
            tapped(fleet["oxp"]) as oxp,
            tapped(toolset.url) as callback,
            tapped(server.url) as rcrt,
        ):
            taps = {"otc": otc, "oxp": oxp, "callback": callback, "rcrt": rcrt}
            backends: dict[str, Any] = {name: {"protocol": name, "url": tap.url} for name, tap in taps.items()}
            backends["rcrt"] |= CRUMBS
            async with running(config(backends, telemetry={"otlp": collector.url, "sample": 0})) as gateway:
                for protocol, (tool_id, arguments) in CALLS.items():
                    headers = {**sent, "x-request-id": f"traced-{protocol}"}
                    answer = await gateway.caller.call(
                        "oxp", tool_id, arguments, headers=headers, context={"user_id": "ada"}
                    )
                    head = await heard(taps[protocol], headers["x-request-id"])
                    assert head.count(f"\r\nx-request-id: traced-{protocol}") == 1
                    [(trace, parents[tool_id])] = re.findall(PARENT_SENT, head)
                    assert trace == TRACE
                    assert re.findall(r"\r\n(tracestate.*)\r\n", head) == ["tracestate: vendor=a1"]
                path = answer.headers["location"].removeprefix(PUBLIC_URL)
                await processes.until(lambda: is_over(gateway.caller, path), "the outcome is found")
    tools = {span.name.removeprefix("execute_tool "): span for span in collector.of(TRACE) if span.kind == "client"}
    assert {name: span.id for name, span in tools.items()} == parents
    [found] = collector.named("receive outcome")
    assert found.links == ((TRACE, tools["Crumbs.echo"].parent),)
    assert found.trace != TRACE


PARENT_SENT = r"\r\ntraceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01"


async def is_over(caller: Caller, path: str) -> bool:
    return (await caller.http.get(path)).status_code == httpx.codes.OK


async def test_a_forwarded_request_id_is_sent_once(start: Start, server: ToolServer) -> None:
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant"]}
    caller = (await start(config({"scripted": backend}))).caller
    await caller.call("oxp", "Echo.Say", headers={"x-tenant": "acme", "traceparent": PARENT, "x-request-id": "mine"})
    headers = dict(server.calls[0].headers)
    assert len(headers) == len(server.calls[0].headers)
    assert (headers["x-tenant"], headers["x-request-id"], headers["traceparent"][3:35]) == ("acme", "mine", TRACE)
