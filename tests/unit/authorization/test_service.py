"""The authorizer on real sockets: what it stores, what it shares, and what becomes of calls without a decision."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.authorization import HttpAuthorizer, Unknown
from gateway.errors import DeniedError, ErrorCode, GatewayError
from gateway.model import CallContext, ToolCall, ToolRef
from gateway.ports import Caller, Target
from gateway.transport import Limits, Origin, Pool
from tests.streams import http_reply
from tests.unit.transport.scripted import Peer, Script, Server, serving

pytestmark = pytest.mark.anyio

TARGET = Target("Mail.Send", "1.0.0", "post", "post/*")
CALL = ToolCall(ref=ToolRef(tool="Mail.Send"), arguments={"secret": "canary"})
ADA = Caller(principal="key:ada")
YES, NO = http_reply(200, {"result": True}), http_reply(200, {"result": {"allow": False, "reason": "quota"}})


class Desk:
    """An authorizer, what it has counted, and its clock."""

    def __init__(self, authorizer: HttpAuthorizer, server: Server, counted: list[str], asked: list[float]) -> None:
        self.authorizer = authorizer
        self.server = server
        self.counted = counted
        self.asked = asked
        self.now = 1000.0

    async def decide(self, user: str | None = None, caller: Caller = ADA) -> None:
        call = CALL if user is None else replace(CALL, context=CallContext(user_id=user))
        await self.authorizer.authorize(call, TARGET, caller, "oxp")


@asynccontextmanager
async def desk(script: Script, url: str = "", **terms: Any) -> AsyncIterator[Desk]:
    counted: list[str] = []
    asked: list[float] = []
    settings = {"timeout_s": 5.0, "cache_s": 10.0, "runs_on_failure": False, "with_arguments": False, **terms}
    async with serving(script) as server:
        pool = Pool(Origin.parse(url or server.url), Limits(connections=2))
        authorizer = HttpAuthorizer(
            pool,
            b"/v1/data/toolgate",
            ((b"authorization", b"Bearer t0ken"),),
            **settings,
            count=counted.append,
            observe=asked.append,
            clock=lambda: it.now,
        )
        async with aclosing(authorizer):
            it = Desk(authorizer, server, counted, asked)
            yield it


def answering(*answers: bytes) -> Script:
    """Gives these answers, the last one for ever."""
    waiting = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(waiting.pop(0) if len(waiting) > 1 else waiting[0])

    return script


async def test_a_decision_is_used_again_for_the_same_question_only() -> None:
    async with desk(answering(NO, YES)) as it:
        for _ in range(2):
            with pytest.raises(DeniedError) as caught:
                await it.decide()
            assert (caught.value.code, caught.value.reason) == (ErrorCode.FORBIDDEN, "quota")
        await it.decide(user="ada")
        await it.decide(caller=Caller(principal="key:ada", scopes=frozenset({"mail"})))
        assert len(it.server.requests) == len(it.asked) == 3
        it.now += 10
        await it.decide()
        assert len(it.server.requests) == 4
        assert it.counted == ["denied"] * 2 + ["allowed"] * 3
    head, _, body = it.server.requests[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST /v1/data/toolgate HTTP/1.1\r\n")
    assert "Bearer t0ken" in head
    assert "canary" not in body


async def test_stored_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.authorization.service.CACHED", 2)
    async with desk(answering(YES)) as it:
        for user in ("a", "b", "c", "b", "a"):
            await it.decide(user)
        assert len(it.server.requests) == 4  # that on `a` made room for that on `c`


async def test_what_is_asked_at_the_same_time_is_asked_once_and_outlives_whoever_asked_first() -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        arrived.set()
        await go.wait()
        await peer.send(YES)

    async with desk(script) as it:
        first, *others = [asyncio.create_task(it.decide()) for _ in range(20)]
        await arrived.wait()
        first.cancel()
        await asyncio.wait([first])
        go.set()
        await asyncio.gather(*others)
        assert len(it.server.requests) == 1
        assert it.counted == ["allowed"] * 19


@pytest.mark.parametrize("terms", [{"cache_s": 0.0}, {"with_arguments": True}])
async def test_without_a_cache_each_call_is_asked_about(terms: dict[str, Any]) -> None:
    async with desk(answering(YES, NO), **terms) as it:
        await it.decide()
        with pytest.raises(DeniedError):
            await it.decide()
        assert ("canary" in it.server.requests[0].decode()) is bool(terms.get("with_arguments"))


async def test_an_idle_connection_that_was_closed_is_no_failure() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(YES)
        await peer.request()  # which gets no answer

    async with desk(script, cache_s=0.0) as it:
        await it.decide()
        await it.decide()
        assert it.counted == ["allowed"] * 2
        assert len(it.server.requests) == 3


async def silence(peer: Peer) -> None:
    await peer.request()
    await peer.stay()


async def hanging_up(peer: Peer) -> None:
    await peer.request()


NOWHERE = "http://127.0.0.1:1"
FAILURES: list[tuple[Script, str, dict[str, Any]]] = [
    (answering(http_reply(200, b"<html>canary")), "the answer is not JSON", {}),
    (answering(http_reply(500, {"code": "internal_error", "message": "canary"})), "status 500", {}),
    (answering(http_reply(200, b" " * 70_000)), "The reply", {}),
    (answering(b"canary\r\n\r\n"), "The reply is not HTTP/1.1", {}),
    (hanging_up, "The server", {}),
    (silence, "", {"timeout_s": 0.05}),  # on a slow machine no connection in time
    (silence, "http://127.0.0.1:1", {"url": NOWHERE}),
]


@pytest.mark.parametrize(("script", "why", "terms"), FAILURES)
async def test_without_a_decision_a_call_is_refused_for_now_or_runs_as_configured(
    script: Script, why: str, terms: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with desk(script, **terms) as it:
        for _ in range(2):  # a failure is not stored
            with pytest.raises(GatewayError) as caught:
                await it.decide()
            assert caught.value.code is ErrorCode.AUTHORIZATION_UNAVAILABLE
            assert caught.value.retry_after_s == 1
            assert str(caught.value.detail).startswith(why)
        assert len(it.asked) == 2
        assert it.authorizer.details()["up"] is False
        probed = await it.authorizer.probe()
        assert isinstance(probed, Unknown)
        assert probed.why.startswith(why)
    async with desk(script, runs_on_failure=True, **terms) as it:
        await it.decide()
        assert it.counted == ["unavailable"]
    warnings = [one.__dict__ for one in caplog.records if one.levelno == logging.WARNING]
    assert [one["calls"] for one in warnings] == ["refused", "allowed"]  # not for each call
    assert "canary" not in str([one.__dict__ for one in caplog.records])


async def test_a_service_that_comes_back_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with desk(answering(http_reply(503, b""), YES), runs_on_failure=True) as it:
        await it.decide()
        await it.decide()
        await it.decide(user="ada")
        assert it.authorizer.details() == {"up": True}
    said = [one.message for one in caplog.records if one.name == "gateway.authorization"]
    assert said == ["the authorization service gives no decision", "the authorization service decides again"]
