"""Requests that never reach a route are counted and written down like all others. All of it is ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests import plainhttp
from tests.live.workers.team import metric
from tests.support.calling import connect
from tests.support.processes import DEADLINE_S, GatewayProcess, gateway, settings, until

pytestmark = pytest.mark.anyio

PAGE = "https://page.example"
CANARY = "canary-that-nobody-may-write-down"
HEAD = b"Host: localhost\r\n"
SHORT_S = 1  # for heads and bodies; the sweep looks at them every quarter of it

# What is sent, the status it is refused with, and the reason in the log.
MALFORMED: list[tuple[bytes, int, str]] = [
    (b"\x16\x03\x01 hello\r\n\r\n", 400, "not_http"),
    (b"GET /%s HTTP/1.1\r\n\r\n" % CANARY.encode(), 400, "host"),
    (b"POST /call HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "not_http"),
    (b"GET /" + CANARY.encode() * 300 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 414, "long_target"),
    (b"GET / HTTP/1.1\r\n" + HEAD + b"X: " + CANARY.encode() * 1000 + b"\r\n\r\n", 431, "large_head"),
    (b"CONNECT / HTTP/1.1\r\n" + HEAD + b"X-Request-ID: mine\r\n\r\n", 501, "method"),
    (b"GET / HTTP/0.9\r\n" + HEAD + b"X-Request-ID: not a word\r\n\r\n", 505, "http_version"),
    (b"GET /%s HTTP/1.1\r\n" % CANARY.encode(), 408, "slow_head"),
]
CODES = {408: b"request_timeout", 414: b"head_too_large", 431: b"head_too_large"}  # all others: invalid_request


@pytest.fixture
async def site() -> AsyncIterator[GatewayProcess]:
    server = {
        "port": 0,
        "admin": {"port": 0},
        "allowed_hosts": ["localhost", "127.0.0.1"],
        "cors": {"origins": [PAGE]},
        "head_timeout": f"{SHORT_S}s",
        "body_timeout": f"{SHORT_S}s",
    }
    async with gateway(settings({}, server=server)) as running:
        yield running


def lines(site: GatewayProcess, **wanted: Any) -> list[dict[str, Any]]:
    """What is written down of requests that have all this in common."""
    return [line for line in site.logged("request") if wanted.items() <= line.items()]


async def said_to(site: GatewayProcess, data: bytes) -> bytes:
    """What is answered to these bytes, to the end of the connection."""
    reader, writer = await connect(site.url)
    writer.write(data)
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    writer.close()
    return answer


async def test_what_the_parser_refuses_is_counted_by_its_status_with_the_reason_in_the_log(
    site: GatewayProcess,
) -> None:
    ids = []
    for data, status, _ in MALFORMED:
        answer, code = await said_to(site, data), CODES.get(status, b"invalid_request")
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"\r\ntoolgate-code: %b\r\n" % code in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == code.decode()
        ids.append(answer.partition(b"\r\nx-request-id: ")[2].partition(b"\r\n")[0].decode())
    for status in {status for _, status, _ in MALFORMED}:
        expected = sum(each == status for _, each, _ in MALFORMED)
        labels = {"dialect": "none", "operation": "other", "status": str(status)}
        assert await metric(site, "toolgate_requests_total", **labels) == expected, status
    await until(lambda: len(lines(site, operation="other", route="-")) == len(MALFORMED), "one line each")
    refused = lines(site, operation="other")
    assert [(line["request_id"], line["reason"]) for line in refused] == [
        (id_, reason) for id_, (_, _, reason) in zip(ids, MALFORMED, strict=True)
    ]
    assert (ids[5], len(set(ids)), min(map(len, ids))) == ("mine", len(MALFORMED), len("mine"))
    assert {line["outcome"] for line in refused} == {"refused"}
    assert {line["client"] for line in refused} == {"127.0.0.1"}
    assert CANARY not in site.log_text()


async def test_a_body_that_never_comes_is_counted_once_and_as_the_call_that_it_was(site: GatewayProcess) -> None:
    head = b"POST /oxp/call HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    assert (await said_to(site, head + b"{")).startswith(b"HTTP/1.1 408 ")
    await until(lambda: bool(lines(site, status=408)), "it is written down")
    (line,) = lines(site)
    said = line["operation"], line["route"], line["dialect"], line["reason"]
    assert said == ("call", "/call", "oxp", "slow_body")
    assert await metric(site, "toolgate_requests_total", status="408", operation="call", dialect="oxp") == 1
    assert await metric(site, "toolgate_requests_total", operation="call") == 1
    assert await metric(site, "toolgate_requests_total", operation="other") == 0


async def test_what_is_meant_for_another_host_is_noted_without_its_path(site: GatewayProcess) -> None:
    async with plainhttp.async_client(base_url=site.url, headers={"host": "evil.example"}) as http:
        answers = [
            await http.post("/otc/tools/call", json={}),
            await http.get(f"/challenges/{CANARY}", headers={"x-request-id": "mine"}),
            await http.post(f"/callbacks/{CANARY}", json={}),
            await http.get(f"/{CANARY}"),
        ]
    assert [answer.status_code for answer in answers] == [400] * 4
    assert answers[1].headers["x-request-id"] == "mine"
    await until(lambda: len(lines(site, status=400)) == len(answers), "one line each")
    assert [(line["operation"], line["route"]) for line in lines(site, status=400)] == [
        ("call", "/tools/call"),
        ("challenge", "/challenges/{token}"),
        ("callback", "/callbacks/{token}"),
        ("other", "-"),
    ]
    assert {line["reason"] for line in lines(site)} == {"other_host"}
    assert [line["request_id"] for line in lines(site, operation="challenge")] == ["mine"]
    assert await metric(site, "toolgate_requests_total", dialect="otc", operation="call", status="400") == 1
    assert await metric(site, "toolgate_requests_total", operation="challenge", status="400") == 1
    assert CANARY not in site.log_text()


async def test_what_a_browser_asks_beforehand_is_noted_as_such(site: GatewayProcess) -> None:
    async with plainhttp.async_client(base_url=site.url) as http:
        asked = {"origin": PAGE, "access-control-request-method": "POST"}
        assert (await http.options("/oxp/tools/call", headers=asked)).status_code == 204
    await until(lambda: bool(lines(site, operation="preflight")), "it is written down")
    (line,) = lines(site)
    assert (line["route"], line["status"], line["outcome"]) == ("/tools/call", 204, "ok")
    assert await metric(site, "toolgate_requests_total", operation="preflight", status="204") == 1
