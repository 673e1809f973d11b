"""OAuth client credentials: tokens that the gateway fetches from an authorization server, on real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest

from gateway.core.errors import ErrorCode
from gateway.net.client import Reply, TransportError
from gateway.protocols.otc.backend import HttpBackend
from gateway.upstream.oauth import ClientCredentials
from tests.protocols.mcp.server_double import INVOCATION as MCP_INVOCATION
from tests.protocols.mcp.server_double import Talk
from tests.protocols.mcp.server_double import facing as mcp_facing
from tests.unit.net.client.scripted import Peer, Script, Server, serving
from tests.unit.upstream.admitting import admission, context_of, settings_of
from tests.unit.upstream.facing import INVOCATION, OK, refusal, reply

pytestmark = pytest.mark.anyio

SECRET = "s3cret: with a colon & more"
AUTH = {"client_id": "gate way", "client_secret": SECRET, "scope": "tools:run", "resource": "https://tools.example"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def issuing(*answers: Any) -> Script:
    """An authorization server that gives these answers, the last one for ever; a number is a status."""
    waiting = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            await peer.send(answer if isinstance(answer, bytes) else reply(200, answer))

    return script


def token(name: str, **more: Any) -> dict[str, Any]:
    return {"access_token": name, "token_type": "Bearer", "expires_in": 600} | more


@asynccontextmanager
async def client(script: Script, **keys: Any) -> AsyncIterator[tuple[ClientCredentials, Server, Clock]]:
    clock = Clock()
    async with serving(script) as issuer:
        oauth = {**AUTH, "token_url": f"{issuer.url}/token", **keys}
        settings = settings_of("oxp", "http://127.0.0.1:9", auth={"oauth": oauth})
        async with aclosing(ClientCredentials("crm", settings.auth.oauth, clock)) as credentials:
            yield credentials, issuer, clock


def shown(credentials: ClientCredentials) -> str:
    return b"".join(value for _, value in credentials("anybody")).decode()


async def test_mcp_77_one_token_request_serves_many_callers() -> None:
    async with client(issuing(token("one"))) as (credentials, issuer, _):
        await asyncio.gather(*(credentials.ready(5) for _ in range(50)))
        assert shown(credentials) == "Bearer one"
        [request] = issuer.requests
    head, _, body = request.decode().partition("\r\n\r\n")
    basic = next(line for line in head.split("\r\n") if line.lower().startswith("authorization: basic "))
    assert b64decode(basic.split(" ")[2]).decode() == "gate+way:s3cret%3A+with+a+colon+%26+more"
    assert head.startswith("POST /token ")
    assert parse_qs(body) == {
        "grant_type": ["client_credentials"],
        "scope": ["tools:run"],
        "resource": ["https://tools.example"],
    }


async def test_id_and_secret_may_stand_in_the_body() -> None:
    async with client(issuing(token("one")), client_auth="body", scope=None, resource=None) as (credentials, issuer, _):
        await credentials.ready(5)
        head, _, body = issuer.requests[0].decode().partition("\r\n\r\n")
    assert "authorization" not in head.lower()
    asked = {"grant_type": ["client_credentials"], "client_id": ["gate way"], "client_secret": [SECRET]}
    assert parse_qs(body) == asked


async def test_mcp_77_a_token_is_renewed_a_minute_before_it_ends_and_is_used_meanwhile() -> None:
    async with client(issuing(token("one"), token("two", expires_in="600"))) as (credentials, issuer, clock):
        await credentials.ready(5)
        clock.now += 539
        await credentials.ready(5)
        assert len(issuer.requests) == 1
        clock.now += 2
        await credentials.ready(5)
        assert shown(credentials) == "Bearer one"  # nobody waits
        assert credentials._fetching is not None
        await asyncio.wait([credentials._fetching])
        assert shown(credentials) == "Bearer two"
        assert len(issuer.requests) == 2


async def test_mcp_77_a_refused_token_is_renewed_once() -> None:
    """One renewal for all whose token was refused; a token that is refused while it is new is not."""
    async with client(issuing(token("one"), token("two"))) as (credentials, issuer, clock):

        async def ask() -> Reply:
            used = shown(credentials)
            await asyncio.sleep(0)
            return Reply(401 if used in refused else 200, (), b"")

        refused = {"Bearer one"}
        await credentials.ready(5)
        clock.now += 10
        answers = await asyncio.gather(*(credentials.authorized(ask, 5) for _ in range(5)))
        assert [answer.status for answer in answers] == [200] * 5
        assert len(issuer.requests) == 2
        refused.add("Bearer two")
        assert (await credentials.authorized(ask, 5)).status == 401
        assert len(issuer.requests) == 2


REFUSALS: list[tuple[Any, str]] = [
    (reply(401, {"error": "invalid_client", "error_description": SECRET}), "status 401, error invalid_client"),
    (reply(400, {"error": SECRET}), "status 400, error unknown"),
    (reply(302, b"", location="http://127.0.0.1:1/"), "status 302, and its body is no answer of OAuth"),
    (reply(200, b"<html>"), "status 200, and its body is no answer of OAuth"),
    (token("two words"), "the answer holds no bearer token"),
    (token("x" * 20_000), "the answer holds no bearer token"),
    (token("x", token_type="mac"), "the answer holds no bearer token"),
    (token("x", expires_in=0), "the token has ended already"),
    (reply(200, b" " * 70_000), "the authorization server is unavailable: The reply"),
    (reply(503, b"<html>"), "the authorization server is unavailable: status 503"),
]


@pytest.mark.parametrize(("answer", "reason"), REFUSALS, ids=[reason for _, reason in REFUSALS])
async def test_mcp_77_an_issuer_that_refuses_is_bounded_and_not_quoted(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(issuing(answer)) as (credentials, issuer, clock):
        for _ in range(3):  # asked once in a while only
            with pytest.raises(TransportError) as caught:
                await credentials.ready(5)
            assert not caught.value.sent
        assert len(issuer.requests) == 1
        clock.now += 6
        with pytest.raises(TransportError):
            await credentials.ready(5)
        assert len(issuer.requests) == 2
    [record] = [one for one in caplog.records if one.levelno == logging.WARNING]  # and not for each attempt
    assert str(record.__dict__["reason"]).startswith(reason)
    assert "s3cret" not in json.dumps([one.__dict__ for one in caplog.records], default=str)


async def test_an_authorization_server_that_cannot_be_reached_is_named_once() -> None:
    async with client(issuing(token("one")), token_url="http://127.0.0.1:1/token") as (credentials, _, _):
        with pytest.raises(TransportError) as caught:
            await credentials.ready(5)
    assert str(caught.value).count("http://127.0.0.1:1") == 1


async def test_mcp_77_calls_and_lists_carry_the_token_and_a_call_is_sent_again_after_a_401() -> None:
    async def tools(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if b"Bearer two" not in request:
                await peer.send(reply(401, {"error": "token"}))
            else:
                await peer.send(OK if request.startswith(b"POST") else reply(200, {"items": []}))

    async with serving(issuing(token("one"), token("two"))) as issuer, serving(tools) as server:
        auth = {"oauth": {**AUTH, "token_url": f"{issuer.url}/token"}}
        settings = settings_of("oxp", server.url, auth=auth, toolkit="Crm")
        async with aclosing(HttpBackend("crm", settings, context_of(admission(server.url)))) as backend:
            tokens = backend._exchange.tokens
            assert tokens is not None
            tokens._clock = clock = Clock()
            await tokens.ready(5)
            clock.now += 10
            result = await backend.call(INVOCATION)
            assert result.value == 7
            assert (await backend.list_tools()).tools == ()
        assert len(issuer.requests) == 2


async def test_without_a_token_nothing_is_sent_and_the_call_is_refused_at_once() -> None:
    answer = reply(429, {"error": "slow_down"}, retry_after="30")
    async with serving(issuing(answer)) as issuer, serving(issuing(OK)) as server:
        auth = {"oauth": {**AUTH, "token_url": f"{issuer.url}/token"}}
        settings = settings_of("oxp", server.url, auth=auth, toolkit="Crm")
        async with aclosing(HttpBackend("crm", settings, context_of(admission(server.url)))) as backend:
            refused = await refusal(backend.call(INVOCATION))
            assert refused.code is ErrorCode.BACKEND_UNAVAILABLE
            assert refused.detail == f"no token: the authorization server is unavailable: status 429 ({issuer.url})"
            assert 20 < (refused.retry_after_s or 0) <= 30
            assert (await refusal(backend.list_tools())).detail == refused.detail
        assert len(issuer.requests) == 1  # not before it said
        assert not server.requests


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_mcp_77_everything_an_mcp_server_is_sent_has_a_token_and_none_is_logged(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Handshakes, lists, calls and ends of sessions; a 401 is answered with one new token, whatever it is to."""
    caplog.set_level(logging.DEBUG)
    good = ["Bearer canary-one", "Bearer canary-two"]
    refused: list[str] = []

    def checked(serve: Any) -> Any:
        async def script(talk: Talk) -> None:
            if talk.request.header("authorization") == good[0]:
                await serve(talk)
            else:
                refused.append(talk.method)
                await talk.send(reply(401, {"error": "canary"}))

        return script

    async with serving(issuing(token("canary-one"), token("canary-two"))) as issuer:
        auth = {"oauth": {**AUTH, "token_url": f"{issuer.url}/token"}}
        async with mcp_facing(era, keys={"auth": auth}) as (backend, double):
            double.before = checked(double.serve)
            tokens = backend._exchange.tokens
            assert tokens is not None
            tokens._clock = clock = Clock()
            await asyncio.gather(*(backend.call(MCP_INVOCATION) for _ in range(20)))
            assert len(issuer.requests) == 1
            good.pop(0)
            clock.now += 10
            listing = asyncio.create_task(backend.list_tools())
            results = await asyncio.gather(*(backend.call(MCP_INVOCATION) for _ in range(20)))
            assert [result.value for result in results] == ["seven"] * 20
            assert len((await listing).tools) == 1
            assert len(double.ran) == 40
            assert len(issuer.requests) == 2
        assert refused
        assert {talk.request.header("authorization") for talk in double.told} <= {"Bearer canary-one", *good}
    logged = json.dumps([one.__dict__ for one in caplog.records], default=str)
    assert "canary" not in logged
    assert "s3cret" not in logged


async def test_mcp_77_without_a_token_an_mcp_server_is_sent_nothing() -> None:
    async with serving(issuing(reply(500, {}))) as issuer:
        auth = {"oauth": {**AUTH, "token_url": f"{issuer.url}/token"}}
        async with mcp_facing("modern", keys={"auth": auth}) as (backend, double):
            for asking in (backend.call(MCP_INVOCATION), backend.list_tools()):
                assert (await refusal(asking)).code is ErrorCode.BACKEND_UNAVAILABLE
            assert not double.told
