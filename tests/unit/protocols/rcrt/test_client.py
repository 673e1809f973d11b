"""Tokens of the server's own endpoint, and what counts as an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.net.client import Kind, TransportError
from gateway.offload import ChildTasks
from gateway.protocols.rcrt.answers import AnswerError, BrokenAnswerError
from gateway.protocols.rcrt.client import RcrtClient, Timings
from gateway.protocols.rcrt.tokens import RcrtTokens
from gateway.upstream.replica_url import Server as ToolServer
from tests.unit.net.client.scripted import Script, Server, pooled, serving
from tests.unit.protocols.rcrt.crumbs import AGENT, OWNER, rcrt_settings
from tests.unit.upstream.admitting import PATIENCE_S
from tests.unit.upstream.facing import at_paths, head_of, paths, reply

pytestmark = pytest.mark.anyio

WALL = 1_762_770_000.0
CREATED = reply(200, {"id": "1d0b"})
UNAUTHORIZED = reply(401, b"invalid token: ExpiredSignature", "text/plain")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now - 1000.0


def token(number: int, life_s: float = 3600.0) -> bytes:
    return reply(200, {"token": f"t{number}", "owner_id": OWNER, "agent_id": AGENT, "exp": WALL + life_s})


@asynccontextmanager
async def facing(script: Script, path: str = "", **keys: Any) -> AsyncIterator[tuple[RcrtClient, Server, Clock]]:
    clock = Clock()
    async with serving(script) as server, pooled(server) as pool:
        at = ToolServer(server.url + path, pool, PATIENCE_S)
        settings = rcrt_settings(at.url, max_response="4KiB", **keys)
        client = RcrtClient("crumbs", settings, at, ChildTasks(memory_bytes=0), Timings())
        client.tokens = RcrtTokens(settings, at, clock, clock.wall)
        yield client, server, clock


async def create(client: RcrtClient) -> str:
    return await client.create(b"{}", "tg-1", 5.0, ())


def shown(server: Server) -> list[str]:
    """The tokens breadcrumbs were created with."""
    heads = [head_of(request) for request in server.requests if b"/breadcrumbs" in request[:40]]
    return [head.get("authorization", "") for head in heads]


async def test_a_token_is_asked_for_once_and_used_for_four_fifths_of_its_life() -> None:
    known = {"/rcrt/auth/token": token(1), "/rcrt/breadcrumbs": CREATED}
    async with facing(at_paths(known, UNAUTHORIZED), "/rcrt") as (client, server, clock):
        assert [await create(client) for _ in range(2)] == ["1d0b", "1d0b"]
        clock.now += 0.79 * 3600
        await create(client)
        known["/rcrt/auth/token"] = token(2)
        clock.now += 0.02 * 3600
        await create(client)
    assert shown(server) == ["bearer t1"] * 3 + ["bearer t2"]
    asked = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert asked == {"owner_id": OWNER, "agent_id": AGENT, "roles": ["emitter", "subscriber"], "ttl_sec": 3600}
    assert head_of(server.requests[1])["idempotency-key"] == "tg-1"


async def test_calls_at_once_ask_for_one_token_and_its_shorter_life_is_respected() -> None:
    known = {"/auth/token": token(1, life_s=100.0), "/breadcrumbs": CREATED}
    async with facing(at_paths(known, UNAUTHORIZED)) as (client, server, clock):
        await asyncio.gather(*(create(client) for _ in range(10)))
        assert paths(server).count("/auth/token") == 1
        clock.now += 81
        await create(client)
    assert paths(server).count("/auth/token") == 2


async def test_a_server_that_refuses_every_token_is_not_asked_for_ever() -> None:
    async with facing(at_paths({"/auth/token": token(1)}, UNAUTHORIZED)) as (client, server, _):
        for _ in range(3):
            with pytest.raises(AnswerError) as caught:
                await create(client)
            assert caught.value.status == 401
    assert paths(server).count("/auth/token") == 1  # within one second


@pytest.mark.parametrize("answer", [reply(503, b"no key", "text/plain"), reply(404, b"", "text/plain")])
async def test_a_server_that_issues_no_tokens_is_called_without(answer: bytes) -> None:
    """Spec: authentication may be switched off."""
    known = {"/auth/token": answer, "/breadcrumbs": CREATED}
    async with facing(at_paths(known, UNAUTHORIZED)) as (client, server, clock):
        assert [await create(client) for _ in range(2)] == ["1d0b", "1d0b"]
        known["/auth/token"] = token(1)
        clock.now += 61
        await create(client)
    assert shown(server) == ["", "", "bearer t1"]


BAD_TOKENS = [
    reply(400, b"invalid owner_id format", "text/plain"),
    reply(200, {"token": 7}),
    reply(200, {"token": "a\r\nx-evil: 1"}),
    reply(200, {"token": "ü"}),
    reply(200, ["t1"]),
    reply(200, b"<html>", "text/html"),
    b"rubbish\r\n\r\n",
]


@pytest.mark.parametrize("answer", BAD_TOKENS, ids=lambda item: repr(item)[:50])
async def test_without_a_token_nothing_is_sent(answer: bytes) -> None:
    async with facing(at_paths({"/auth/token": answer}, CREATED)) as (client, server, _):
        with pytest.raises(GatewayError) as caught:
            await create(client)
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert set(paths(server)) == {"/auth/token"}


async def test_a_401_for_want_of_a_token_is_told_as_that() -> None:
    """Spec: 503 where the server has no key to sign with; but a proxy says it of any server."""
    unissued = reply(503, b"starting", "text/plain", retry_after="7")
    known = {"/auth/token": unissued, "/events/stream": UNAUTHORIZED}
    async with facing(at_paths(known, UNAUTHORIZED)) as (client, server, clock):
        with pytest.raises(GatewayError) as caught:
            await create(client)
        refused = caught.value
        assert (refused.code, refused.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 7)
        assert refused.detail == f"no token from {server.url}/auth/token: status 503: starting"
        known |= {"/auth/token": token(1), "/breadcrumbs": CREATED}
        clock.now += 2
        assert await create(client) == "1d0b"


@pytest.mark.parametrize("status", [500, 503])  # with the latter nothing but a 401 shows that it takes a token
async def test_a_good_token_is_used_on_while_no_new_one_is_to_be_had(status: int) -> None:
    known = {"/auth/token": token(1), "/breadcrumbs": CREATED}
    async with facing(at_paths(known, UNAUTHORIZED)) as (client, server, clock):
        await create(client)
        known["/auth/token"] = reply(status, b"", "text/plain")
        clock.now += 0.9 * 3600
        assert await create(client) == "1d0b"
        known["/breadcrumbs"] = UNAUTHORIZED
        clock.now += 0.2 * 3600
        with pytest.raises(GatewayError):
            await create(client)
    assert [sent for sent in shown(server) if sent] == ["bearer t1", "bearer t1"]


async def test_a_fixed_token_is_never_replaced() -> None:
    async with facing(at_paths({}, UNAUTHORIZED), auth={"bearer": "fixed"}) as (client, server, _):
        with pytest.raises(AnswerError):
            await create(client)
    assert shown(server) == ["bearer fixed"]


ANSWERS: list[tuple[bytes, type[Exception]]] = [
    (reply(500, b"", "text/plain"), AnswerError),
    (reply(302, b"", location="/elsewhere"), AnswerError),
    (reply(200, b"<html>", "text/html"), AnswerError),
    (reply(200, b"[1"), BrokenAnswerError),
    (reply(200, {"items": []}), BrokenAnswerError),
]


@pytest.mark.parametrize(("answer", "error"), ANSWERS, ids=lambda item: repr(item)[:40])
async def test_an_answer_of_some_proxy_is_no_broken_list(answer: bytes, error: type[Exception]) -> None:
    async with facing(at_paths({"/auth/token": token(1)}, answer)) as (client, _, _clock):
        with pytest.raises(AnswerError) as caught:
            await client.find("tool.response.v1", "request:tg-1", limit=5)
    assert type(caught.value) is error


async def test_a_record_that_is_gone_is_none_and_one_that_is_too_large_is_not_read() -> None:
    known = {"/auth/token": token(1), "/breadcrumbs/1d0b/full": reply(200, {"id": "x" * 5000})}
    async with facing(at_paths(known, reply(404, b"not found", "text/plain"))) as (client, _, _clock):
        assert await client.read("b7e0") is None
        with pytest.raises(TransportError) as caught:
            await client.read("1d0b")
    assert caught.value.kind is Kind.TOO_LARGE


@pytest.mark.parametrize("body", [{}, [], {"id": 7}, None], ids=repr)
async def test_a_breadcrumb_whose_id_is_not_said_is_stored_all_the_same(body: Any) -> None:
    async with facing(at_paths({"/auth/token": token(1)}, reply(200, body))) as (client, _, _clock):
        assert await create(client) == ""


async def test_the_words_of_a_database_are_not_repeated() -> None:
    """Ours: they may quote the arguments."""
    answer = reply(500, b"invalid input: 'my secret'", "text/plain")
    async with facing(at_paths({"/auth/token": token(1)}, answer)) as (client, _, _clock):
        with pytest.raises(AnswerError) as caught:
            await create(client)
    assert "secret" not in str(caught.value)
