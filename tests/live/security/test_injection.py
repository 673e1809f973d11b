"""No text of a caller or of a tool server becomes a line of a head: to callers, to tool servers, or in the log.

Texts are put wherever one is taken; what goes out is read as bytes, on both sides.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.flow.caller import DIALECTS
from tests.support.calling import connect, encoded_call
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import Exchange, ToolServer, definition, echo, tool_server

pytestmark = pytest.mark.anyio

BREAKS = ["\r\n", "\n", "\r", "\x00", "\x85", "\u2028", "%0d%0a", "\\r\\n"]
FORGED = '{"level":"error","message":"forged"}'
PAGE = "https://agents.example.com"


def evil(break_: str) -> str:
    return f"x{break_}X-Evil: 1{break_}{FORGED}{break_}{break_}GET /evil HTTP/1.1"


async def babble(exchange: Exchange) -> None:
    """Fails with such a text in every member, also in those that are ours to send."""
    text = str(exchange.request.call["input"]["text"])
    error = {
        "message": text,
        "developer_message": text,
        "can_retry": True,
        "additional_prompt_content": text,
        "retry_after_ms": 1,
        text: text,
    }
    result = {"call_id": exchange.request.call["call_id"], "success": False, "error": error, "logs": [text], text: text}
    await exchange.reply({"$schema": text, "result": result}, headers=[("X-Evil-Server", "1"), ("Set-Cookie", "a=b")])


async def refuse(exchange: Exchange) -> None:
    text = str(exchange.request.call["input"]["text"])
    headers = [("Retry-After", "1, X-Evil: 1"), ("WWW-Authenticate", 'Bearer realm="X-Evil"'), ("Location", "/evil")]
    await exchange.reply({"message": text, "parameter_errors": {text: text}}, status=422, headers=headers)


@dataclass(frozen=True)
class Site:
    running: GatewayProcess
    lab: ToolServer

    async def ask(self, data: bytes) -> bytes:
        """Sends bytes and returns all that is answered, which must be one answer without a forged line."""
        reader, writer = await connect(self.running.url)
        writer.write(data)
        answer = await reader.read()
        writer.close()
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert head.startswith(b"http/1.1 "), answer
        lines = head.split(b"\r\n")[1:]
        assert b"\n" not in b"".join(lines)
        assert all(line.partition(b":")[0].strip() in KNOWN for line in lines), head
        return answer


# Every header the gateway has for callers; a forged one is not among them.
KNOWN = {
    *(b"content-type", b"content-length", b"connection", b"cache-control", b"vary", b"etag", b"oxp-version", b"allow"),
    *(b"toolgate-call-id", b"toolgate-code", b"location", b"preference-applied", b"x-request-id"),
    *(b"www-authenticate", b"retry-after"),
    *(b"ratelimit", b"ratelimit-policy", b"access-control-allow-origin", b"access-control-expose-headers"),
    *(b"access-control-allow-methods", b"access-control-allow-headers", b"access-control-max-age"),
}
# And for tool servers.
SENT = {
    *("host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "x-tenant"),
    *("x-request-id", "traceparent", "tracestate"),
}


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Site]:
    listed = [definition("Lab.Echo"), definition("Lab.Babble"), definition("Lab.Refuse")]
    for break_ in BREAKS:
        text = evil(break_)
        listed += [
            definition("Lab.Echo") | {"id": f"Lab.{text}@1.0.0"},
            definition("Lab.Echo") | {"id": "Lab.Versioned@1.0.0", "version": text},
            definition(f"Lab.Described{len(listed)}") | {"name": text, "description": text, text: text},
        ]
    handlers = {"Lab.Echo": echo, "Lab.Babble": babble, "Lab.Refuse": refuse}
    async with tool_server(handlers, listed) as lab:
        backend = {"protocol": "otc", "url": lab.url, "forward_headers": ["x-tenant"]}
        limits = [{"name": "wide", "key": "caller", "rate": "100000/s"}]
        server = {"port": 0, "admin": {"port": 0}, "cors": {"origins": [PAGE]}}
        async with gateway(settings({"lab": backend}, server=server, rate_limits=limits)) as running:
            yield Site(running, lab)
            for request in lab.requests:
                assert {name for name, _ in request.headers} <= SENT, request.headers
                assert not any({"\r", "\n"} & set(text) for _, text in request.headers), request.headers
                assert request.target in ("/tools", "/tools/call"), request.target
            messages = {line["message"] for line in map(json.loads, running.log_text().splitlines())}
            assert "forged" not in messages


CLOSE = "Connection: close"


@pytest.mark.parametrize("break_", BREAKS, ids=repr)
async def test_texts_in_the_body_of_a_call_stay_there(site: Site, break_: str) -> None:
    text = evil(break_)
    context = {
        "user_id": text,
        "authorization": [{"id": text, "token": text}],
        "secrets": [{"id": text, "value": text}],
    }
    members: list[dict[str, Any]] = [
        {"trace_id": text, "context": context},
        {"call_id": text},
        {"call_id": "c", "trace_id": text},
        {text: text},
    ]
    for more in members:
        await site.ask(encoded_call("Lab.Echo", {text: text}, CLOSE, **more))
    await site.ask(encoded_call(f"Lab.Echo@{text}", {}, CLOSE))
    await site.ask(encoded_call(text, {}, CLOSE))


@pytest.mark.parametrize("break_", BREAKS, ids=repr)
async def test_texts_of_a_tool_server_stay_in_the_body(site: Site, break_: str) -> None:
    for tool in ("Lab.Babble", "Lab.Refuse"):
        await site.ask(encoded_call(tool, {"text": evil(break_)}, CLOSE))
        await site.ask(encoded_call(tool, {"text": evil(break_)}, CLOSE, call_id=f"kept {BREAKS.index(break_)}"))


async def test_a_catalogue_with_such_texts_has_a_head_like_any_other(site: Site) -> None:
    for dialect in DIALECTS:
        answer = await site.ask(f"GET /{dialect}/tools HTTP/1.1\r\nHost: a\r\n{CLOSE}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("break_", BREAKS, ids=repr)
async def test_paths_stay_paths(site: Site, break_: str) -> None:
    for path in ("/calls/", "/oxp/calls/", "/challenges/", "/callbacks/", "/tools/", "/"):
        for method in ("GET", "DELETE", "POST", "OPTIONS"):
            target = path + quote(evil(break_), safe="")
            await site.ask(f"{method} {target} HTTP/1.1\r\nHost: a\r\n{CLOSE}\r\n\r\n".encode())


HEADERS = [
    *("X-Request-ID", "Traceparent", "Tracestate", "Prefer", "OXP-Version", "User-Agent", "Origin", "X-Tenant"),
    *("If-None-Match", "X-Forwarded-For", "Forwarded", "Accept-Encoding", "Content-Type"),
    "Access-Control-Request-Method",
]


@pytest.mark.parametrize("break_", BREAKS, ids=repr)
@pytest.mark.parametrize("name", HEADERS)
async def test_headers_of_a_caller_are_refused_or_stay_one_line(site: Site, name: str, break_: str) -> None:
    value = evil(break_)
    lines = [f"{name}: {value}", CLOSE]
    if name.startswith("Access"):
        lines.append(f"Origin: {PAGE}")
    await site.ask(encoded_call("Lab.Echo", {}, *lines))
    await site.ask("\r\n".join(["OPTIONS /tools HTTP/1.1", "Host: a", *lines, "", ""]).encode())
    await site.ask("\r\n".join(["GET /tools HTTP/1.1", "Host: a", *lines, "", ""]).encode())
