"""Requests that the page has sent for it: to the gateway's own listener only, shown as they went over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.console.relay import MAX_ANSWER_BYTES
from tests.live.console.asking import Console, console
from tests.support.authority import Authority
from tests.support.processes import gateway, settings, until
from tests.support.toolserver import Exchange, Handler, echo, tool_server

pytestmark = pytest.mark.anyio

JSON = [["content-type", "application/json"], ["oxp-version", "1.0"]]


def request(tool: str, arguments: Any = None) -> dict[str, Any]:
    return {"method": "POST", "headers": JSON, "body": json.dumps({"tool_id": tool, "input": arguments or {}})}


@asynccontextmanager
async def lab(handlers: dict[str, Handler], **more: Any) -> AsyncIterator[Console]:
    async with (
        tool_server(handlers) as server,
        gateway(settings({"lab": {"protocol": "otc", "url": server.url, "max_response": "32MiB"}}, **more)) as running,
        console(running) as it,
    ):
        yield it


def body_of(lines: list[Any]) -> str:
    return "".join(line.get("data", "") for line in lines)


async def test_an_exchange_is_told_as_it_went_over_the_wire() -> None:
    async with lab({"Lab.Echo": echo}) as it:
        lines = await it.sent("/tools/call", **request("Lab.Echo", {"é": "ü"}))
    first, second, *_, last = lines
    assert first["request"]["line"] == "POST /tools/call HTTP/1.1"
    sent = {name.lower(): value for name, value in first["request"]["headers"]}
    assert sent["oxp-version"] == "1.0"
    assert sent["host"].startswith("127.0.0.1:")
    assert json.loads(first["request"]["body"])["input"] == {"é": "ü"}
    assert (second["response"]["line"], second["response"]["status"]) == ("HTTP/1.1 200 OK", 200)
    assert "toolgate-call-id" in {name.lower() for name, _ in second["response"]["headers"]}
    assert json.loads(body_of(lines))["value"] == {"é": "ü"}
    assert last["end"]["truncated"] is False
    assert last["end"]["bytes"] == len(body_of(lines).encode())


async def test_refusals_and_queries_pass_as_they_are() -> None:
    async with lab({"Lab.Echo": echo}) as it:
        lines = await it.sent("/nothing?here=%20", method="DELETE")
    assert lines[0]["request"]["line"] == "DELETE /nothing?here=%20 HTTP/1.1"
    assert lines[1]["response"]["status"] == 404


async def test_an_answer_that_is_too_large_is_cut() -> None:
    async def large(exchange: Exchange) -> None:
        await exchange.finish(value="x" * (MAX_ANSWER_BYTES + 1000))

    async with lab({"Lab.Large": large}) as it:
        lines = await it.sent("/tools/call", **request("Lab.Large"))
    assert lines[-1]["end"] | {"duration_s": 0} == {"duration_s": 0, "bytes": MAX_ANSWER_BYTES, "truncated": True}


async def test_a_request_whose_page_leaves_is_given_up() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        begun.set()
        await exchange.until_closed()
        left.set()

    async with lab({"Lab.Slow": slow}) as it:
        async with it.sending("/tools/call", **request("Lab.Slow")):
            await until(begun.is_set, "the call runs")
        await until(left.is_set, "the tool server is left")


async def test_a_request_that_takes_too_long_ends_with_a_sentence() -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.until_closed()

    async with lab({"Lab.Slow": slow}) as it:
        lines = await it.sent("/tools/call", **request("Lab.Slow"), timeout_s=0.2)
    assert lines[-1] == {"error": "No answer within 0.2 s."}


async def test_a_listener_with_tls_and_names_of_its_own_is_reached(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("tools.example.com")
    server = {
        "port": 0, "admin": {"port": 0}, "tls": {"cert": cert, "key": key},
        "public_url": "https://tools.example.com", "allowed_hosts": ["tools.example.com"],
    }  # fmt: skip
    async with (
        tool_server({"Lab.Echo": echo}) as lab_server,
        gateway(settings({"lab": {"protocol": "otc", "url": lab_server.url}}, server=server), ready=False) as running,
        console(running) as it,
    ):
        await until(lambda: _is_ready(it), "it is ready")
        lines = await it.sent("/tools/call", **request("Lab.Echo", {"n": 1}))
    assert dict(lines[0]["request"]["headers"])["Host"] == "tools.example.com"
    assert lines[1]["response"]["status"] == 200


async def _is_ready(it: Console) -> bool:
    return bool((await it.get("overview"))["status"] == "ok")


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "http://198.51.100.1/"},
        {"path": "tools"},
        {"path": "/a b"},
        {"path": "/a\r\nX: y"},
        {"path": 1},
        {"method": "CONNECT"},
        {"method": "get"},
        {"headers": [["host", "other"]]},
        {"headers": [["Content-Length", "1"]]},
        {"headers": [["transfer-encoding", "chunked"]]},
        {"headers": [["X-Forwarded-For", "203.0.113.9"]]},
        {"headers": [["x-forwarded-proto", "https"]]},
        {"headers": [["Forwarded", "for=203.0.113.9"]]},
        {"headers": [["X-Real-IP", "203.0.113.9"]]},
        {"headers": [["x", "a\r\nb: c"]]},
        {"headers": [["a b", "c"]]},
        {"headers": [["x"]]},
        {"headers": {"x": "y"}},
        {"headers": [["x", "y"]] * 65},
        {"body": {"a": 1}},
        {"timeout_s": 0},
        {"timeout_s": 1e9},
        {"timeout_s": True},
        {"timeout_s": "1"},
    ],
    ids=repr,
)
async def test_what_cannot_be_sent_is_refused(wrong: dict[str, Any], shared: Console) -> None:
    answer = await shared.post("send", {"method": "GET", "path": "/tools", "headers": []} | wrong)
    assert answer.status_code == 400
    assert answer.json()["message"]


async def test_a_path_that_looks_like_a_host_stays_a_path(shared: Console) -> None:
    lines = await shared.sent("//198.51.100.1/tools")
    assert lines[1]["response"]["status"] == 404


@pytest.fixture(scope="module")
async def shared(anyio_backend: object) -> AsyncIterator[Console]:
    async with lab({"Lab.Echo": echo}) as it:
        yield it
