"""HTTP APIs whose answers have no end, or are not what they say."""

from __future__ import annotations

import gzip

import pytest

from tests.live.security.apis import api_site
from tests.streams import http_reply
from tests.support.calling import call, value
from tests.support.httpapi import mirror, operation
from tests.support.processes import until
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n{}\r\n\r\n"
CHUNKED, TEN_GIB = "Transfer-Encoding: chunked", f"Content-Length: {10 * 1024 * MIB}"
ENDLESS = {
    "blanks": ("application/json", CHUNKED, b" "),
    "list": ("application/json", CHUNKED, b'[["x"],'),
    "promise": ("application/json", TEN_GIB, b"1"),
    "text": ("text/plain", CHUNKED, b"x"),
    "bytes": ("application/octet-stream", TEN_GIB, b"\0"),
    "lines": ("application/x-ndjson", CHUNKED, b"1\n"),
    "events": ("text/event-stream", CHUNKED, b"data: x\n\n"),
    "html": ("text/html", CHUNKED, b"<p>"),
    "problem": ("application/problem+json", CHUNKED, b" "),
}
WRONG: dict[str, bytes] = {
    "nonsense": b"HTTP/9 what\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
    "nan": http_reply(200, b"[NaN]", content_type="application/json"),
    "surrogate": http_reply(200, b'"\\ud800"', content_type="application/json"),
    "latin": http_reply(200, b'"\xe9"', content_type="application/json"),
    "brackets": http_reply(200, b"[" * 100_000, content_type="application/json"),
    "login": http_reply(200, b"<h1>Log in</h1>", content_type="text/html"),
    "nothing": http_reply(200, b"", content_type="application/json"),
    "charset": http_reply(200, b"x", content_type="text/plain; charset=no-such"),
    "type": http_reply(200, b"x", content_type="a b c; ;;="),
    "gzip": http_reply(200, b"not gzip", content_type="application/json", content_encoding="gzip"),
}
BOMB = "bomb"
FINE = {"nothing", "charset", "type", "surrogate"}  # odd, and yet something can be made of them


async def answer(exchange: Exchange) -> None:
    name = exchange.request.target.partition("?")[0].removeprefix("/")
    if name in ENDLESS:
        media_type, framing, piece = ENDLESS[name]
        await exchange.write(HEAD.format(media_type, framing).encode())
        data = piece * (MIB // len(piece))
        while True:  # until the gateway hangs up
            await exchange.write(b"%x\r\n%b\r\n" % (len(data), data) if framing is CHUNKED else data)
    elif name == BOMB:
        packed = gzip.compress(b'"' + b"0" * 100 * MIB + b'"', 1)
        framing = f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}"
        await exchange.write(HEAD.format("application/json", framing).encode() + packed)
    elif name in WRONG:
        await exchange.write(WRONG[name])
        exchange.half_close()
        await exchange.until_closed()
    else:
        await mirror(exchange)


async def test_openapi_41_an_answer_of_any_size_or_kind_costs_no_more_than_its_limit() -> None:
    names = (*ENDLESS, BOMB, *WRONG, "mirror")
    paths = {f"/{name}": {"post": operation(name)} for name in names}
    async with api_site(paths, answer) as place:
        assert value(await call(place.http, "Api.mirror"))["target"] == "/mirror"
        before = place.running.peak_memory_bytes()
        for name in (*ENDLESS, BOMB, *WRONG):
            asked = len(place.api.calls)
            answered = await call(place.http, f"Api.{name}")
            assert answered.status_code == 200, (name, answered.text)
            outcome = answered.json()["result"]
            assert outcome["success"] is (name in FINE), (name, outcome)
            assert outcome.get("error", {}).get("can_retry", False) is False, (name, outcome)
            assert len(place.api.calls) == asked + 1
        assert place.running.peak_memory_bytes() - before < 60 * MIB  # 8 MiB are read, in pieces and joined
        await until(lambda: place.api.connections <= 1, "what has no end is cut off")
        assert value(await call(place.http, "Api.mirror"))["target"] == "/mirror"
