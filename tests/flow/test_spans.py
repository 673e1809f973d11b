"""The spans of a request, as a collector gets them by OTLP: names, parents, kinds, links, attributes.

W3C Trace Context decides on parents; OpenTelemetry's conventions on the names where they have any: HTTP spans, GenAI
(execute_tool) and MCP. The rest is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from gateway.telemetry.recorder import bound_of
from tests.flow.builds import ASYNC, builds
from tests.flow.gateways import Running, config, running, until
from tests.flow.toolserver import Handler, ToolServer, hang_up
from tests.protocols.mcp.requests import ask
from tests.streams import Request
from tests.support.otlp import Collector, Seen, collecting
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = PARENT[:-1] + "0"
CANARY = "canary-7f3a"


@pytest.fixture(scope="module")
def collector() -> Any:
    with collecting() as it:
        yield it


@pytest.fixture
def fresh(collector: Collector) -> Collector:
    """The collector, as if nothing had come yet."""
    collector.spans.clear()
    collector.bodies.clear()
    return collector


def telemetry(collector: Collector, sample: float = 1) -> dict[str, Any]:
    return {"telemetry": {"otlp": collector.url, "sample": sample}}


@asynccontextmanager
async def gateway(
    collector: Collector, server: ToolServer, sample: float = 1, **sections: Any
) -> AsyncIterator[Running]:
    """A gateway in front of a tool server. What it has recorded is at the collector once it has ended."""
    async with running(config({"desk": server.url}, **telemetry(collector, sample), **sections)) as it:
        yield it


def one(spans: Sequence[Seen], name: str) -> Seen:
    [found] = [span for span in spans if span.name == name]
    return found


def names(spans: Sequence[Seen]) -> list[str]:
    return [span.name for span in spans]


async def test_a_call_is_a_span_with_a_child_for_each_step(fresh: Collector, server: ToolServer) -> None:
    async with gateway(fresh, server) as it:
        answer = await it.caller.call("otc", "Count.Up", {"n": 1}, call_id="k", headers={"traceparent": PARENT})
    spans = fresh.of(TRACE)
    steps = ["authenticate", "limit", "validate", "state begin", "execute_tool Count.Up", "state settle"]
    assert names(spans) == ["POST /tools/call", *steps]
    root, tool = spans[0], one(spans, "execute_tool Count.Up")
    assert (root.parent, root.kind, root.failed) == (SPAN, "server", False)
    assert {span.parent for span in spans[1:]} == {root.id}
    assert {span.name: span.kind for span in spans[1:] if span.kind != "internal"} == {tool.name: "client"}
    assert all(root.begun_ns <= span.begun_ns <= span.ended_ns <= root.ended_ns for span in spans)
    [received] = server.calls
    assert received.header("traceparent") == f"00-{TRACE}-{tool.id}-01"
    known = {"toolgate.request_id": answer.headers["x-request-id"]}
    ours = {"toolgate.call_id": answer.headers["toolgate-call-id"]}
    about = {"gen_ai.tool.name": "Count.Up", "toolgate.backend": "desk"}
    assert root.attributes == known | ours | about | {
        "http.request.method": "POST",
        "http.route": "/tools/call",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "url.path": "/tools/call",
        "toolgate.operation": "call",
        "toolgate.dialect": "otc",
        "toolgate.outcome": "ok",
    }
    host, port = server.url.removeprefix("http://").split(":")
    assert tool.attributes == about | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.id": ours["toolgate.call_id"],
        "toolgate.protocol": "oxp",
        "toolgate.tool.version": "1.0.0",
        "server.address": host,
        "server.port": int(port),
    }
    assert one(spans, "state begin").attributes == {"db.operation.name": "begin"}
    assert root.resource["service.name"] == "toolgate"


def failing(server: ToolServer) -> Handler:
    async def handle(received: Request) -> bytes:
        return server.failure(received, message=CANARY)

    return handle


Failure = tuple[Callable[[ToolServer], Handler] | None, str, Any, list[str], dict[str, str], str]
CHECKED = ["authenticate", "limit", "validate"]
ECHO = "execute_tool Echo.Say"
# What the tool server does, the tool and its input; the spans below the root, errors by span, the word for why.
FAILURES: Mapping[str, Failure] = {
    "a tool that fails": (failing, "Echo.Say", {}, [*CHECKED, ECHO], {ECHO: "tool_error"}, ""),
    "no answer": (lambda _: hang_up, "Echo.Say", {}, [*CHECKED, ECHO], {ECHO: "unknown"}, ""),
    "wrong input": (None, "Count.Up", {"n": "x"}, CHECKED, {"validate": "invalid_arguments"}, "invalid_arguments"),
    "no such tool": (None, "No.Such", {}, ["authenticate", "limit"], {}, "tool_not_found"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_what_fails_is_an_error_of_the_span_where_it_failed(
    fresh: Collector, server: ToolServer, name: str
) -> None:
    """An answer below 500 is no error of a server's span (HTTP spans, Status)."""
    handler, tool, arguments, expected, errors, reason = FAILURES[name]
    server.handler = server.handler if handler is None else handler(server)
    async with gateway(fresh, server) as it:
        await it.caller.call("oxp", tool, arguments, headers={"traceparent": PARENT})
    root, *spans = fresh.of(TRACE)
    assert names(spans) == expected
    assert {span.name: span.attributes["error.type"] for span in spans if span.failed} == errors
    assert not root.failed
    assert root.attributes.get("toolgate.reason", "") == reason


async def test_parents_decide_and_where_there_is_none_the_ratio(fresh: Collector, server: ToolServer) -> None:
    """A tool server is told the decision, so that it need not record what has no beginning."""
    for sample, given, is_recorded in ((0, None, False), (0, PARENT, True), (1, UNSAMPLED, False), (1, None, True)):
        fresh.spans.clear()
        server.received.clear()
        async with gateway(fresh, server, sample) as it:
            await it.caller.call("oxp", "Echo.Say", headers={} if given is None else {"traceparent": given})
        assert bool(fresh.spans) is is_recorded
        sent = str(server.calls[0].header("traceparent"))
        assert sent.endswith("-01" if is_recorded else "-00")
        assert (sent[3:35] == TRACE) is (given is not None)


async def test_what_strangers_ask_to_be_recorded_is_not(fresh: Collector, server: ToolServer) -> None:
    """Else anybody could fill the collector, and whoever pays for it: only the ratio speaks for them."""
    asked = {"traceparent": PARENT}
    for sample, is_recorded in ((0, False), (1, True)):
        fresh.spans.clear()
        async with gateway(fresh, server, sample, auth={"jwt": [{"secret": SECRET}]}) as it:
            for dialect in ("oxp", "rfc"):
                assert (await it.caller.call(dialect, "Echo.Say", headers=asked)).status == 401
            assert (await it.caller.with_token("x").list("oxp", headers=asked)).status == 401
            for path in ("/nowhere", "/openapi.json", "/calls/x", "/challenges/x", "/mcp"):
                await it.caller.http.get(path, headers=asked)
            await ask(it.caller, "tools/list", {}, headers=asked)
            assert (await it.caller.with_token(token()).call("oxp", "Echo.Say", headers=asked)).status == 200
        roots = [span.name for span in fresh.of(TRACE) if span.kind == "server"]
        assert (len(roots) > 1) is is_recorded
        assert "POST /tools/call" in roots


def test_the_ratio_is_that_of_trace_ids() -> None:
    """As `TraceIdRatioBased`: the same traces at every service."""
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    for ratio in (0, 0.01, 0.5, 0.999, 1):
        sampler = TraceIdRatioBased(ratio)
        for last in ("0" * 16, "028f5c28f5c28f5b", "028f5c28f5c28f5c", "7" + "f" * 15, "8" + "0" * 15, "f" * 16):
            decided = sampler.should_sample(None, int("1" * 16 + last, 16), "x").decision is Decision.RECORD_AND_SAMPLE
            assert (last.encode() < bound_of(ratio)) is decided


async def test_a_message_of_mcp_names_its_own_parent(fresh: Collector, server: ToolServer) -> None:
    """MCP conventions, Context propagation: its span is the parent's child, and linked to that of the request."""
    meta = {"traceparent": PARENT, "tracestate": "vendor=a1"}
    async with gateway(fresh, server) as it:
        await ask(it.caller, "tools/call", {"name": "Echo_Say", "arguments": {}, "_meta": meta})
    message, *spans = fresh.of(TRACE)
    request = one(fresh.spans, "POST /mcp")
    assert (message.name, message.kind, message.parent) == ("tools/call Echo.Say", "server", SPAN)
    assert message.links == ((request.trace, request.id),)
    assert message.attributes["mcp.method.name"] == "tools/call"
    assert message.attributes["mcp.protocol.version"] == "2026-07-28"
    assert names(spans) == ["limit", "validate", "execute_tool Echo.Say"]
    assert names(fresh.of(request.trace)) == ["POST /mcp", "authenticate"]
    assert server.calls[0].header("tracestate") == "vendor=a1"


async def test_a_callback_is_linked_to_its_call(fresh: Collector) -> None:
    """It is recorded because the call was, whatever the ratio says."""
    async with builds(**telemetry(fresh, 0)) as site:
        assert (await site.call(call_id="k", headers={**ASYNC, "traceparent": PARENT})).status == 202
        begun = await site.invoked(1, "k")
        assert await begun.bring("done") == 200
        assert await begun.outcome() == "done"
    root = one(fresh.of(TRACE), "POST /tools/call")
    [callback] = fresh.named("POST /callbacks/{token}")
    assert callback.links == ((TRACE, root.id),)
    assert (callback.parent, callback.trace == TRACE) == ("", False)
    assert callback.attributes["toolgate.backend"] == "builds"
    assert "state settle" in names(fresh.of(callback.trace))
    assert len(fresh.named("GET /calls/{call_id}")) == 0


async def test_a_repetition_is_linked_to_the_request_that_began_the_call(fresh: Collector, server: ToolServer) -> None:
    async with gateway(fresh, server) as it:
        for parent in (PARENT, PARENT.replace("4bf9", "aaaa")):
            await it.caller.call("oxp", "Echo.Say", call_id="k", headers={"traceparent": parent})
    [first] = [span for span in fresh.of(TRACE) if span.kind == "server"]
    [second] = [span for span in fresh.spans if span.trace != TRACE and span.kind == "server"]
    assert second.links == ((TRACE, first.id),)
    assert not first.links


async def test_waiting_for_a_turn_is_a_span_of_its_own(fresh: Collector, server: ToolServer) -> None:
    """The span of the tool server begins with the turn."""
    held = asyncio.Event()

    async def hold(received: Request) -> bytes:
        await held.wait()
        return await server.echo(received)

    server.handler = hold
    backend = {"protocol": "oxp", "url": server.url, "max_concurrency": 1}
    async with running(config({"desk": backend}, **telemetry(fresh))) as it:
        calls = [asyncio.create_task(it.caller.call("oxp", "Echo.Say")) for _ in range(2)]
        await until(lambda: it.gateway.generation.admissions["desk"].queued == 1)
        held.set()
        await asyncio.gather(*calls)
    queue = one(fresh.spans, "queue")
    root, *spans = fresh.of(queue.trace)
    tool = one(spans, "execute_tool Echo.Say")
    assert queue.parent == tool.parent == root.id
    assert tool.begun_ns == queue.ended_ns


async def test_nothing_of_a_caller_is_in_a_span(fresh: Collector, server: ToolServer) -> None:
    """Neither its words, nor its credential, nor what a tool answers."""

    async def reveal(received: Request) -> bytes:
        return server.value(received, {"secret": CANARY})

    server.handler = reveal
    async with gateway(fresh, server) as it:
        headers = {"authorization": f"Bearer {CANARY}", "user-agent": CANARY, "x-request-id": "mine"}
        context = {"user_id": CANARY}
        for path in ("/call", f"/calls/{CANARY}", f"/callbacks/{CANARY}", f"/{CANARY}"):
            body = {
                "request": {"tool_id": "Echo.Say", "call_id": CANARY, "input": {CANARY: CANARY}, "context": context}
            }
            await it.caller.http.post(path, json={"$schema": "urn:oxp:1.0", **body}, headers=headers)
        meta = {"traceparent": PARENT, "progressToken": CANARY, CANARY: CANARY}
        await ask(it.caller, "tools/call", {"name": CANARY, "arguments": {CANARY: CANARY}, "_meta": meta})
    assert len(fresh.spans) > 10
    assert not [body for body in fresh.bodies if CANARY.encode() in body]


@contextmanager
def refusing(collector: Collector) -> Any:
    collector.status = 401
    try:
        yield
    finally:
        collector.status = 200


async def test_a_collector_that_takes_nothing_is_reported_once_and_counted(
    fresh: Collector, server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    with refusing(fresh):
        async with gateway(fresh, server) as it:
            await it.caller.call("oxp", "Echo.Say")
            metrics = it.gateway.metrics
        series = {
            each.labels[0]: each.values[0] for each in metrics.series() if each.family.name == "toolgate_spans_total"
        }
    assert series == {"exported": 0, "failed": 5.0, "dropped": 0}
    [line] = [record for record in caplog.records if record.name == "gateway.telemetry"]
    assert (line.levelname, line.getMessage()) == ("WARNING", "spans cannot be exported")
    assert "401" in vars(line)["reason"]
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
