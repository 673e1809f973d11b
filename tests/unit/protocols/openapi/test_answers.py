"""Answers of HTTP APIs as they come through an exchange: very large ones, and what statuses say of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from gzip import compress
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.wire import WireReply, WireRequest
from gateway.offload import ChildTasks
from gateway.protocols.openapi.document.codec import OpenApiCodec
from gateway.protocols.openapi.document.plan import AnswerPlan
from gateway.upstream.admission import BreakerRules
from gateway.upstream.exchange import HttpExchange
from tests.streams import Request, accepting, read_request
from tests.unit.protocols.openapi.document.calling import called, operation
from tests.unit.protocols.openapi.facing import GET, calling, facing, lending
from tests.unit.protocols.openapi.facing import api as served
from tests.unit.upstream.admitting import admission, context_of, settings_of
from tests.unit.upstream.facing import reply

pytestmark = pytest.mark.anyio

LOOK = WireRequest(method=b"HEAD", path="")
MANY: list[Any] = [[]] * 20_000  # some 15 ms of reading
WIDE = encode({"data": {"id": 7, "rest": MANY}})
SLOW = b"[" + b"[]," * 300_000 + b"[]]"  # 150 ms on an idle machine
TURNS = 20  # of the event loop; it has two or three where it is held up
JSON = ((b"content-type", b"application/json"),)
RULES = BreakerRules(failures=3)


@asynccontextmanager
async def api(*answers: bytes) -> AsyncIterator[HttpExchange]:
    """An exchange with a server that gives these answers, then the last one again and again."""
    left = list(answers)

    async def converse(reader: Any, writer: Any) -> None:
        while True:
            await read_request(reader)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()

    async with accepting(converse) as port:
        url = f"http://127.0.0.1:{port}"
        context = context_of(admission(url, breaker=RULES), offload=ChildTasks())
        async with (
            aclosing(context.checker),
            aclosing(HttpExchange("api", settings_of("otc", url), context, LOOK)) as to,
        ):
            yield to


LARGE: list[tuple[bytes, dict[str, Any], Any]] = [
    (reply(200, WIDE), {}, Raw(WIDE)),
    (reply(206, WIDE), {}, Raw(WIDE)),
    (reply(200, WIDE), {"select": "/data/id"}, 7),
    (reply(200, WIDE), {"select": "data.rest[:1]"}, [[]]),
    (reply(200, WIDE), {"select": "/nothing"}, Raw(b"null")),
    (reply(200, WIDE), {"headers": ("etag",)}, Raw(b'{"body":%b,"headers":{}}' % WIDE)),
    (
        reply(200, b"[]\n" * 20_000, content_type="application/x-ndjson"),
        {},
        Raw(encode(MANY)),
    ),
]


async def test_very_many_values_stay_text_and_are_selected_from() -> None:
    async with api(*(answer for answer, _, _ in LARGE)) as exchange:
        for _, plan, value in LARGE:
            result = await exchange.call(OpenApiCodec(), called(operation(**plan)))
            assert (result.value, result.failure) == (value, None)


async def test_what_is_large_and_no_json_is_broken() -> None:
    async with api(reply(200, WIDE[:-1]), reply(200, b"[" * 30_000)) as exchange:
        for _ in range(2):
            failure = (await exchange.call(OpenApiCodec(), called(operation()))).failure
            assert failure is not None
            assert failure.code == "broken_answer"


async def test_others_have_their_turns_while_a_large_answer_is_read_and_selected_from() -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with api(reply(200, SLOW)) as exchange:
        others = asyncio.create_task(go_on())
        await asyncio.sleep(0)
        before = turns
        result = await exchange.call(OpenApiCodec(), called(operation(select="length(@)")))
        others.cancel()
    assert result.value == 300_001
    assert turns - before > TURNS


OPENS = {
    500: True,
    502: True,
    503: True,
    504: True,
    400: False,
    404: False,
    409: False,
    429: False,
    501: False,
    302: False,
}


@pytest.mark.parametrize(("status", "opens"), OPENS.items())
async def test_openapi_48_statuses_that_show_a_sick_service_open_the_breaker(status: int, opens: bool) -> None:
    async with api(reply(status, b"")) as exchange:
        for _ in range(RULES.failures):
            assert (await exchange.call(OpenApiCodec(), called(operation()))).failure is not None
        try:
            await exchange.call(OpenApiCodec(), called(operation()))
        except GatewayError:
            assert opens
        else:
            assert not opens


async def test_openapi_55_a_service_that_links_to_itself_with_our_key_does_not_show_it() -> None:
    key, word = "k3y-of-ours-9d8f7a6s", "customer1"
    body = {"self": f"https://api.example/things?key={key}&page=1", "of": word}
    wide = body | {"rest": MANY}
    async with served(lambda request: reply(200, body)) as server:
        async with facing(server, auth={"api_key": {"in": "query", "name": "key", "value": key}}) as backend:
            assert (await backend.call(calling(GET))).value == body | {"self": body["self"].replace(key, "***")}
            reading = backend._calls.reading(WireReply(status=200, headers=JSON, body=encode(wide)), calling(GET))
            assert reading is not None
            assert reading.text == encode(wide).replace(key.encode(), b"***")
        async with facing(server, auth={"basic": {"user": "u", "password": word}}) as backend:
            assert (await backend.call(calling(GET))).value == body  # a word, which may be part of a result


ISSUED = {"access_token": "issued+token/of=the-server", "expires_in": 3600}


@pytest.mark.parametrize("status", [200, 201, 206, 400])
async def test_openapi_55_tokens_that_are_made_or_issued_are_not_shown(status: int) -> None:
    def answer(request: Request) -> bytes:
        if request.target == "/token":
            return reply(200, ISSUED)
        token = (request.header("authorization") or "").removeprefix("Bearer ")
        escaped = token.replace("/", "\\/").replace("+", "\\u002b")
        body = f'{{"message": "Hello {token}", "again": "{escaped}"}}'.encode()
        return reply(status, body, content_type="application/json", location=f"/a?token={quote(token, safe='')}")

    async with served(answer) as server:
        for auth in (
            {"jwt": {"secret": "s" * 32}},
            {"oauth": {"token_url": f"{server.url}/token", "client_id": "c", "client_secret": "s"}},
        ):
            async with facing(server, auth=auth) as backend:
                result = await backend.call(calling(replace(GET, answers=AnswerPlan(headers=("location",)))))
                told = encode([result.value, str(result.failure)]).decode()
                assert "Hello ***" in told
                sent = server.requests[-1].header("authorization") or ""
                assert sent.startswith("Bearer ")
                assert not any(part in told for part in (sent[7:30], sent[-12:], "issued", "of=the-server", "%2Bt"))


async def test_openapi_55_what_callers_or_the_route_lend_is_not_shown() -> None:
    lent = "secret-of-the-route/0123"
    async with served(lambda request: reply(200, {"echo": lent})) as server, facing(server) as backend:
        result = await backend.call(calling(GET, context=lending(KEY=lent)))
    assert result.value == {"echo": "***"}


async def test_openapi_t15_a_204_has_no_body_whatever_its_length_says() -> None:
    async with api(reply(204, b"hello"), reply(204, b""), reply(200, [1])) as exchange:
        values = [(await exchange.call(OpenApiCodec(), called(operation()))).value for _ in range(3)]
    assert values == [None, None, [1]]


async def test_openapi_t16_a_compressed_answer_is_read_although_none_was_asked_for() -> None:
    async with api(reply(200, compress(b"[1]"), content_encoding="gzip")) as exchange:
        assert (await exchange.call(OpenApiCodec(), called(operation()))).value == [1]


async def test_openapi_t16_an_answer_in_a_coding_that_is_not_known_is_broken() -> None:
    async with api(reply(200, b"\x0b\x01\x80[1]\x03", content_encoding="br")) as exchange:
        failure = (await exchange.call(OpenApiCodec(), called(operation()))).failure
    assert failure is not None
    assert failure.code == "broken_answer"
