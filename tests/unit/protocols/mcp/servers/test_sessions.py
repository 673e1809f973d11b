"""Which revision an MCP server speaks, and sessions with it: made once, renewed only when lost, and ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, Invocation, ToolResult
from gateway.protocols.mcp.servers.backend import McpBackend
from gateway.protocols.mcp.servers.channel import McpChannel
from gateway.protocols.mcp.servers.sessions import IDLE_S, REPROBE_S, McpSessions
from tests.protocols.mcp.server_double import (
    EVENTS,
    IDEMPOTENT,
    INVOCATION,
    LEGACY,
    MODERN,
    PATIENCE_S,
    Double,
    Script,
    Talk,
    backend_at,
    chunk,
    facing,
    serving,
    stay,
)
from tests.streams import http_reply
from tests.unit.upstream.admitting import admission
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

TASKS = "io.modelcontextprotocol/tasks"
ANNA, BERT = replace(INVOCATION, principal="anna"), replace(INVOCATION, principal="bert")


def saying(status: int, body: Any, **headers: str) -> Script:
    async def script(talk: Talk) -> None:
        if isinstance(body, dict) and "error" in body:
            await talk.fail(status=status, **body["error"])
        else:
            await talk.send(http_reply(status, body, **headers))

    return script


def error(code: int, **data: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": "No."} | data}


LEGACY_ANSWERS = [
    (200, error(-32601)),
    (400, error(-32602)),
    (400, error(-32000)),
    (400, error(-32022, supported=["2025-11-25"])),
    (404, b"Not Found"),
    (405, b""),
    (406, error(-32000)),
    (200, b"hello"),
    (200, {"jsonrpc": "2.0", "id": 1, "result": {"supportedVersions": ["2025-11-25"]}}),
]
MODERN_ANSWERS = [
    (200, {"jsonrpc": "2.0", "id": 1, "result": {"supportedVersions": [MODERN, "2025-11-25"]}}),
    (400, error(-32022, supported=[MODERN])),
    (400, error(-32020)),
    (400, error(-32021)),
]


@pytest.mark.parametrize(
    ("era", "status", "body"),
    [("legacy", *each) for each in LEGACY_ANSWERS] + [("modern", *each) for each in MODERN_ANSWERS],
)
async def test_mcp_52_the_era_follows_from_what_a_server_says_about_discovery(era: str, status: int, body: Any) -> None:
    async with facing(era, others={"server/discover": saying(status, body)}) as (backend, double):
        assert (await backend.call(INVOCATION)).value == "seven"
        assert len(double.of("initialize")) == (era == "legacy")
        assert backend.dialect == f"mcp {LEGACY if era == 'legacy' else MODERN}"


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503])
async def test_mcp_52_what_says_nothing_about_the_era_makes_no_verdict(status: int) -> None:
    async with facing("legacy", others={"server/discover": saying(status, error(-32000))}) as (backend, double):
        assert (await refusal(backend.call(INVOCATION))).code is ErrorCode.BACKEND_UNAVAILABLE
        assert not double.of("initialize")
        assert not double.ran


async def test_mcp_52_silence_is_no_verdict_and_a_fixed_era_asks_nothing() -> None:
    short = replace(INVOCATION, timeout_s=0.2)
    async with facing("legacy", others={"server/discover": stay}) as (backend, double):
        assert (await refusal(backend.call(short))).code is ErrorCode.BACKEND_UNAVAILABLE
        await double.until(lambda: len(double.of("server/discover")) == 1)
        assert not double.of("initialize")
        async with aclosing(backend_at(double.url, era="legacy")) as fixed:
            assert (await fixed.call(INVOCATION)).value == "seven"
    assert len(double.of("server/discover")) == 1


@asynccontextmanager
async def sessions_of(double: Double, clock: list[float], **limits: Any) -> AsyncIterator[tuple[McpSessions, Any]]:
    """Sessions on a clock of the test's, with one replica."""
    way_in = admission(double.url)
    server = way_in.replicas[0].target
    channel = McpChannel(lambda principal: ())
    try:
        yield McpSessions(channel, clock=lambda: clock[0], **limits), server
    finally:
        await channel.aclose()
        await server.pool.aclose()


async def test_mcp_52_a_server_that_was_legacy_is_asked_again_after_an_hour() -> None:
    clock = [0.0]
    async with serving("legacy") as double, sessions_of(double, clock) as (sessions, server):
        assert (await sessions.negotiate(server, "anna")).peer.session.version == LEGACY
        double.era = "modern"
        await sessions.review(server, "anna")
        assert len(double.of("server/discover")) == 1
        clock[0] = REPROBE_S
        await sessions.review(server, "anna")
        session = sessions.current(server, "anna")
        assert session is not None
        assert session.peer.session.version == MODERN


@pytest.mark.parametrize(("before", "after"), [("modern", "legacy"), ("legacy", "modern")])
async def test_mcp_52_a_server_that_is_replaced_by_one_of_the_other_era_is_noticed(before: str, after: str) -> None:
    async with facing(before) as (backend, double):
        await backend.call(INVOCATION)
        double.era = after
        double.sessions.clear()
        if before == "modern":
            double.others = {"tools/call": unknown_version(double)}
        assert (await backend.call(INVOCATION)).value == "seven"
        assert len(double.ran) == 2


def unknown_version(double: Double) -> Script:
    """Refuses modern requests as the TypeScript SDK does."""

    async def script(talk: Talk) -> None:
        if talk.request.header("mcp-protocol-version") == MODERN:
            await talk.fail(-32000, f"Bad Request: Unsupported protocol version: {MODERN}", 400)
        else:
            double.ran.append(talk)
            await talk.answer()

    return script


# Sessions.


async def test_mcp_57_a_session_is_made_once_for_all_calls_of_a_principal() -> None:
    async with facing("legacy") as (backend, double):
        results = await asyncio.gather(*(backend.call(who) for who in (ANNA, BERT) for _ in range(10)))
        assert {result.value for result in results} == {"seven"}
        assert len(double.of("server/discover")) == 1
        assert len(double.of("initialize")) == 2
        by_session = {talk.request.header("mcp-session-id") for talk in double.ran}
        assert by_session == {"s1", "s2"}
    assert len(double.of("DELETE")) == 2
    assert not double.sessions


async def test_mcp_57_sessions_are_shared_only_if_told() -> None:
    async with facing("legacy", keys={"sessions": "shared"}) as (backend, double):
        await asyncio.gather(backend.call(ANNA), backend.call(BERT))
        assert len(double.of("initialize")) == 1


async def test_mcp_57_idle_sessions_are_ended_and_those_in_use_are_not() -> None:
    clock = [0.0]
    async with serving("legacy") as double, sessions_of(double, clock) as (sessions, server):
        busy = await sessions.negotiate(server, "anna")
        busy.calls = 1
        await sessions.negotiate(server, "bert")
        clock[0] = IDLE_S / 2
        assert sessions.current(server, "carl") is None
        await sessions.negotiate(server, "carl")
        clock[0] = IDLE_S + 1
        await sessions.review(server, "anna")
        await double.until(lambda: len(double.of("DELETE")) == 1)
        assert double.of("DELETE")[0].request.header("mcp-session-id") == "s2"
        assert sessions.current(server, "anna") is busy
        assert sessions.current(server, "bert") is None
        assert sessions.current(server, "carl") is not None


async def test_a_caller_that_names_many_users_ends_its_own_sessions_first() -> None:
    async with serving("legacy") as double, sessions_of(double, [0.0], most=3) as (sessions, server):
        bert = await sessions.negotiate(server, "bert")
        busy = await sessions.negotiate(server, "anna", "user 0")
        busy.calls = 1
        for number in range(1, 6):
            await sessions.negotiate(server, "anna", f"user {number}")
        assert sessions.current(server, "bert") is bert
        assert sessions.current(server, "anna", "user 0") is busy
        assert [sessions.current(server, "anna", f"user {number}") is None for number in range(1, 6)] == [True] * 4 + [
            False
        ]


async def test_a_waiter_that_leaves_does_not_interrupt_the_others() -> None:
    async def slow(talk: Talk) -> None:
        await release.wait()
        await double.initialize(talk)

    release = asyncio.Event()
    async with facing("legacy", others={"initialize": slow}) as (backend, double):
        first, second = asyncio.create_task(backend.call(ANNA)), asyncio.create_task(backend.call(ANNA))
        await double.until(lambda: len(double.of("initialize")) == 1)
        first.cancel()
        release.set()
        assert (await second).value == "seven"
        assert len(double.of("initialize")) == 1


async def test_mcp_59_a_lost_session_is_renewed_once_and_each_call_runs_once() -> None:
    async with facing("legacy") as (backend, double):
        await backend.call(INVOCATION)
        double.sessions.clear()  # as after a restart
        results = await asyncio.gather(*(backend.call(INVOCATION) for _ in range(5)))
        assert {result.value for result in results} == {"seven"}
        assert len(double.of("initialize")) == 2
        assert len(double.ran) == 6
        assert len({talk.id for talk in double.told if talk.id is not None}) == len([t for t in double.told if t.id])


async def test_mcp_59_a_session_that_is_lost_twice_is_a_refusal() -> None:
    async def script(talk: Talk) -> None:
        await talk.fail(-32000, "Session not found", 404)

    async with facing("legacy", others={"tools/call": script}) as (backend, double):
        refused = await refusal(backend.call(INVOCATION))
        assert refused.code is ErrorCode.BACKEND_UNAVAILABLE
        assert len(double.of("tools/call")) == 2


# Which answers deny a session, is told in tests of `denial_in`.
DENIALS: dict[str, tuple[int, Any]] = {
    "text": (400, b"Invalid session ID"),
    "an error as a result": (200, error(-32600, message="Session terminated")),
}


@pytest.mark.parametrize(("status", "body"), DENIALS.values(), ids=DENIALS)
async def test_mcp_59_whatever_denies_a_session_ends_it_and_runs_no_call_twice(status: int, body: Any) -> None:
    async def script(talk: Talk) -> None:
        double.ran.append(talk)
        if talk.request.header("mcp-session-id") in double.sessions:
            await talk.answer()
        else:
            await saying(status, body)(talk)

    async with facing("legacy", others={"tools/call": script}) as (backend, double):
        assert (await backend.call(INVOCATION)).value == "seven"
        double.sessions.clear()
        ended = await outcome_of(backend, INVOCATION)
        assert ended is None or ended.failure is not None
        assert len(double.ran) == 2  # it may have run, so it is not sent again
        assert (await backend.call(INVOCATION)).value == "seven"
        double.sessions.clear()
        assert (await backend.call(IDEMPOTENT)).value == "seven"
        assert (len(double.ran), len(double.of("initialize"))) == (5, 3)


async def outcome_of(backend: McpBackend, invocation: Invocation) -> ToolResult | None:
    try:
        return await backend.call(invocation)
    except GatewayError:
        return None


async def test_mcp_59_renewing_keeps_the_deadline() -> None:
    async with facing("legacy") as (backend, double):
        await backend.call(INVOCATION)
        double.sessions.clear()
        double.others = {"initialize": stay}
        refused = await refusal(backend.call(replace(INVOCATION, timeout_s=1.0)))
        assert refused.code is ErrorCode.BACKEND_UNAVAILABLE
        assert len(double.ran) == 1


@pytest.mark.parametrize("code", [-32602, -32022])
async def test_mcp_60_a_server_that_refuses_a_version_is_offered_the_older_ones(code: int) -> None:
    async def old(talk: Talk) -> None:
        if talk.message["params"]["protocolVersion"] == "2025-03-26":
            double.version = "2025-03-26"
            await double.initialize(talk)
        else:
            await talk.fail(code, "Unsupported protocol version", 200)

    async with facing("legacy", others={"initialize": old}) as (backend, double):
        await backend.call(INVOCATION)
        await backend.call(INVOCATION)
        offered = [talk.message["params"]["protocolVersion"] for talk in double.of("initialize")]
        assert offered == ["2025-11-25", "2025-06-18", "2025-03-26"]
        assert {talk.request.header("mcp-protocol-version") for talk in double.ran} == {"2025-03-26"}
        told = double.of("notifications/initialized")[0].request
        assert (told.header("mcp-protocol-version"), told.header("mcp-session-id")) == ("2025-03-26", "s1")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (lambda talk: talk.answer({"protocolVersion": "2031-01-01"}), "it speaks revision '2031-01-01', which"),
        (lambda talk: talk.answer({}), "it names no revision"),
        (lambda talk: talk.answer({"protocolVersion": LEGACY}, mcp_session_id="a b"), "its id of the session is not"),
        (lambda talk: talk.fail(-32602, "No."), "it refuses every revision"),
        (lambda talk: talk.fail(-32603, "No."), "error -32603: No."),
        (lambda talk: talk.send(http_reply(500, b"")), "status 500 not JSON"),
        (lambda talk: talk.send(http_reply(200, b"hello")), "not JSON"),
        (
            lambda talk: talk.send(http_reply(302, b"", location="http://x.example/")),
            "status 302 a redirect to http://x",
        ),
    ],
    ids=["a later version", "no version", "no ASCII id", "refuses all", "fails", "status 500", "no JSON", "redirect"],
)
async def test_mcp_60_a_handshake_that_fails_is_a_refusal_and_runs_nothing(script: Script, why: str) -> None:
    async with facing("legacy", others={"initialize": script}) as (backend, double):
        refused = await refusal(backend.call(INVOCATION))
        assert (refused.code, double.ran) == (ErrorCode.BACKEND_UNAVAILABLE, [])
        with pytest.raises(GatewayError) as unlisted:
            await backend.list_tools()
        assert f"initialize: {why}" in str(unlisted.value.detail)


async def stream_for_ever(talk: Talk) -> None:
    await talk.send(EVENTS + chunk(b": here I am\n\n"))
    await talk.until_closed()


async def hang_up(talk: Talk) -> None:
    talk.hang_up()


@pytest.mark.parametrize(
    "script",
    [stream_for_ever, hang_up, saying(400, error(-32600)), saying(500, b"no")],
    ids=["an open stream", "no answer", "an error", "a fault"],
)
async def test_a_handshake_ends_however_the_notification_is_answered(script: Script) -> None:
    async with facing("legacy", others={"notifications/initialized": script}) as (backend, double):
        async with asyncio.timeout(PATIENCE_S):
            assert (await backend.call(INVOCATION)).value == "seven"
        assert len(double.of("notifications/initialized")) == 1


async def test_an_id_of_a_session_may_have_eight_kib() -> None:
    async def initialize(talk: Talk) -> None:
        double.sessions.add(long)
        await talk.answer({"protocolVersion": LEGACY, "capabilities": {}}, mcp_session_id=long)

    long = "x" * 8192
    async with facing("legacy", others={"initialize": initialize}) as (backend, double):
        for _ in range(2):
            assert (await backend.call(INVOCATION)).value == "seven"
        assert [talk.request.header("mcp-session-id") for talk in double.ran] == [long, long]


async def test_mcp_58_nothing_of_a_caller_reaches_a_server_but_what_is_forwarded() -> None:
    lent = CallContext(user_id="anna", tokens={"mail": "lent"})
    call = replace(INVOCATION, principal="anna", headers=((b"x-tenant", b"9"),), context=lent)
    for era in ("modern", "legacy"):
        async with facing(era, keys={"auth": {"bearer": "t0k"}}) as (backend, double):
            await backend.call(call)
        for talk in double.told:
            assert talk.request.header("authorization") == "Bearer t0k"
            assert b"anna" not in talk.request.body
            assert b"lent" not in talk.request.body
        assert double.ran[0].request.header("x-tenant") == "9"
        declared = double.told[0].message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert declared == {"elicitation": {"url": {}}, "extensions": {TASKS: {}}}


async def test_mcp_58_another_toolgate_gets_what_its_tools_ask_for() -> None:
    lent = CallContext(user_id="anna", tokens={"mail": "lent"})
    async with facing("modern", keys={"trust_meta": True}) as (backend, double):
        await backend.call(replace(INVOCATION, context=lent))
    meta = double.ran[0].message["params"]["_meta"]
    assert meta["toolgate/context"] == {"authorization": [{"id": "mail", "token": "lent"}], "user_id": "anna"}


async def test_the_path_of_the_url_is_used_as_it_is() -> None:
    async with serving("modern") as double:
        for url in (double.url, double.url + "/", double.url.removesuffix("/mcp")):
            async with aclosing(backend_at(url)) as backend:
                await backend.call(INVOCATION)
    assert [talk.request.target for talk in double.ran] == ["/mcp", "/mcp/", "/"]


async def test_the_query_of_the_url_is_sent_and_shown_to_nobody() -> None:
    async with serving("modern") as double:
        url = f"{double.url}?key=s3cr3t&b=%20"
        async with aclosing(backend_at(url)) as backend:
            await backend.list_tools()
            await backend.call(INVOCATION)
    assert {talk.request.target for talk in double.told} == {"/mcp?key=s3cr3t&b=%20"}


SLASHES = [
    ("", "/mcp", "/mcp/"),
    ("http://HOST", "/mcp/", "/mcp"),
    ("https://HOST:9", "/mcp?a=b", "/mcp/?a=b"),  # as behind a proxy that ends TLS
]


@pytest.mark.parametrize(("where", "at", "to"), SLASHES)
async def test_a_redirect_that_is_about_the_slash_at_the_end_is_followed_once(where: str, at: str, to: str) -> None:
    async def serve(talk: Talk) -> None:
        if talk.request.target == at:
            location = where.replace("HOST", "127.0.0.1" if ":9" in where else host) + to
            await talk.send(http_reply(307, b"", location=location))
        else:
            await double.serve(talk)

    async with serving("modern") as double:
        host = double.url.split("/")[2]
        double.before = serve
        url = f"http://{host}{at}"
        async with aclosing(backend_at(url)) as backend:
            assert [(await backend.call(INVOCATION)).value for _ in range(2)] == ["seven", "seven"]
        assert [talk.request.target for talk in double.told].count(at) == 1


@pytest.mark.parametrize("location", [None, "/other", "http://127.0.0.2/mcp/", "/mcp//", "//mcp/", "http://[", "\xe9"])
async def test_any_other_redirect_is_not_followed_and_its_place_is_named(location: str | None) -> None:
    async def moved(talk: Talk) -> None:
        headers = {} if location is None else {"location": location}
        await talk.send(http_reply(308, b"", **headers))

    async with facing("modern", others={"tools/list": moved}) as (backend, double):
        refused = await refusal(backend.list_tools())
        assert refused.detail is not None
        named = "answered 308, text/plain" if location is None else "answered 308, a redirect to "
        assert f"{double.url} {named}" in refused.detail
        assert len(double.of("tools/list")) == 1


async def test_cookies_that_come_with_a_session_are_sent_back_in_that_session_alone() -> None:
    async def initialize(talk: Talk) -> None:
        double.sessions |= {"s1", "s2"}
        number = len(double.of("initialize"))
        body = json.dumps(talk.response({"protocolVersion": LEGACY, "capabilities": {}})).encode()
        cookies = b"set-cookie: AWSALB=x/%d+==; Path=/; HttpOnly\r\nset-cookie: b=2\r\nset-cookie: =bad\r\n" % number
        head = b"HTTP/1.1 200 OK\r\nmcp-session-id: s%d\r\n%bcontent-length: %d\r\n\r\n"
        await talk.send(head % (number, cookies, len(body)) + body)

    async with facing("legacy", others={"initialize": initialize}) as (backend, double):
        await backend.call(ANNA)
        await backend.call(BERT)
    sent = {talk.request.header("mcp-session-id"): talk.request.header("cookie") for talk in double.told}
    assert sent == {None: None, "s1": "AWSALB=x/1+==; b=2", "s2": "AWSALB=x/2+==; b=2"}


async def test_a_server_that_fails_at_discovery_is_told_of_with_what_it_says_and_what_to_do() -> None:
    broken = saying(500, error(-32603, message="unknown method server/discover"))
    async with facing("legacy", others={"server/discover": broken}) as (backend, _):
        detail = (await refusal(backend.list_tools())).detail or ""
    assert "server/discover: status 500 error -32603: unknown method server/discover" in detail
    assert "set era: legacy" in detail


# Replicas.


async def test_mcp_65_a_call_moves_to_the_next_replica_and_has_a_session_there() -> None:
    async with serving("legacy") as dead:
        url = dead.url
    async with serving("legacy") as double:
        way_in = admission(url, double.url)
        async with aclosing(backend_at(url, way_in=way_in)) as backend:
            for _ in range(3):
                assert (await backend.call(INVOCATION)).value == "seven"
    assert (len(double.of("initialize")), len(double.ran)) == (1, 3)


async def test_mcp_65_a_replica_that_refuses_the_handshake_opens_its_breaker() -> None:
    async with facing("legacy", others={"initialize": saying(500, b"")}) as (backend, double):
        for _ in range(7):
            refused = await refusal(backend.call(INVOCATION))
        assert refused.retry_after_s is not None
        assert len(double.of("initialize")) == 5


async def listed(backend: McpBackend) -> list[str]:
    return [tool.tool for tool in (await backend.list_tools()).tools]


@pytest.mark.parametrize(("status", "body"), [(404, b""), *DENIALS.values()], ids=["not found", *DENIALS])
async def test_lists_are_asked_for_in_a_renewed_session_too(status: int, body: Any) -> None:
    async def script(talk: Talk) -> None:
        if talk.request.header("mcp-session-id") in double.sessions:
            await talk.answer({"tools": [{"name": "find.it", "inputSchema": {"type": "object"}}]})
        else:
            await saying(status, body)(talk)

    async with facing("legacy", others={"tools/list": script}, keys={"toolkit": "Crm"}) as (backend, double):
        assert await listed(backend) == ["Crm.find_it"]
        double.sessions.clear()
        assert await listed(backend) == ["Crm.find_it"]
        sent = json.loads(double.of("initialize")[0].request.body)["params"]["capabilities"]
        assert sent == {"elicitation": {"url": {}}}
        double.others = {"tools/list": saying(status, body)}
        assert (await refusal(backend.list_tools())).code is ErrorCode.BACKEND_UNAVAILABLE
        assert len(double.of("initialize")) == 3
