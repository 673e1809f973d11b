"""The authorizer on real sockets: what it stores, what it shares, and what becomes of calls without a decision."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.auth.service import HttpAuthorizer, Unknown
from gateway.core.errors import DeniedError, ErrorCode, GatewayError
from gateway.core.model import CallContext, ToolCall, ToolRef
from gateway.core.ports import Caller, Target
from gateway.net.client import Limits, Origin, Pool
from tests.streams import http_reply
from tests.unit.net.client.scripted import Peer, Script, Server, serving

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
    settings = {
        "places": 2,
        "timeout_s": 5.0,
        "cache_s": 10.0,
        "runs_on_failure": False,
        "with_arguments": False,
        **terms,
    }
    async with serving(script) as server:
        pool = Pool(Origin.parse(url or server.url), Limits(connections=3))
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
    monkeypatch.setattr("gateway.auth.service.CACHED", 2)
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
    failed = http_reply(503, b"")
    async with desk(answering(failed, failed, YES), runs_on_failure=True) as it:
        await it.decide()
        await it.decide()
        await it.decide(user="ada")
        assert it.authorizer.details() == {"up": True}
    said = [one.message for one in caplog.records if one.name == "gateway.authorization"]
    assert said == ["the authorization service gives no decision", "the authorization service decides again"]


@pytest.mark.parametrize("status", [400, 403, 413])
async def test_a_question_that_the_service_refuses_denies_whatever_is_configured(status: int) -> None:
    for runs_on_failure in (True, False):
        async with desk(answering(http_reply(status, b"canary"), YES), runs_on_failure=runs_on_failure) as it:
            with pytest.raises(DeniedError) as caught:
                await it.decide()
            assert caught.value.reason == "undecided"
            assert it.authorizer.details() == {"up": False, "reason": f"status {status}"}
            await it.decide()  # it is not stored
            assert it.counted == ["denied", "allowed"]


@pytest.mark.parametrize("status", [301, 429, 500])
async def test_a_service_in_trouble_does_as_is_configured(status: int) -> None:
    async with desk(answering(http_reply(status, b"")), runs_on_failure=True) as it:
        await it.decide()
        assert it.counted == ["unavailable"]


# A service that closes the connection, and one that says nothing.
RESET, SILENCE = b"", None
BAD_ANSWERS = [
    http_reply(500, b"canary"),
    http_reply(200, b"<html>canary"),
    http_reply(200, b" " * 70_000),
    RESET,
    SILENCE,
]


@pytest.mark.parametrize("answer", BAD_ANSWERS, ids=["500", "no JSON", "too much", "reset", "silence"])
async def test_what_an_argument_makes_the_service_do_opens_nothing(answer: bytes | None) -> None:
    """It fails on the questions with the canary, and decides about all others."""

    async def script(peer: Peer) -> None:
        while b"canary" not in await peer.request():
            await peer.send(YES)
        if answer is SILENCE:
            await peer.stay()
        elif answer == RESET:
            peer.reset()
        else:
            await peer.send(answer)

    timeout_s = 1.0 if answer is SILENCE else 30.0
    async with desk(script, runs_on_failure=True, with_arguments=True, timeout_s=timeout_s) as it:
        with pytest.raises(GatewayError) as caught:
            await it.decide()
        assert (caught.value.code, caught.value.retry_after_s) == (ErrorCode.AUTHORIZATION_UNAVAILABLE, 1)
        assert it.authorizer.details() == {"up": True}
        assert it.counted == ["unavailable"]


async def test_a_failure_of_a_moment_is_asked_about_again_and_one_that_lasts_opens() -> None:
    failed = http_reply(500, b"")
    async with desk(answering(failed, YES, NO, failed, failed, failed, YES), runs_on_failure=True, cache_s=0.0) as it:
        with pytest.raises(DeniedError):
            await it.decide()
        await it.decide()  # neither it nor our own question is answered
        await it.decide()  # and now our own is the only one
        assert len(it.server.requests) == 6
        await it.decide()
        assert it.counted == ["denied", "unavailable", "unavailable", "allowed"]


class Gate:
    """A service that answers when a test says so; `asked` are the users of the questions, in their order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = asyncio.Semaphore(0)
        self.arrived = asyncio.Condition()

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            async with self.arrived:
                self.asked.append(json.loads(request.partition(b"\r\n\r\n")[2])["input"]["principal"])
                self.arrived.notify_all()
            await self.answers.acquire()
            await peer.send(YES)

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(30), self.arrived:
            await self.arrived.wait_for(lambda: len(self.asked) >= count)


async def test_the_time_that_a_call_waits_for_its_turn_opens_nothing() -> None:
    """Two places, which questions hold that are not answered; `timeout_s` is over for those in the queue first."""
    gate = Gate()
    async with desk(gate.script, runs_on_failure=True, cache_s=0.0, timeout_s=30.0) as it:
        held = [asyncio.create_task(it.decide()) for _ in range(2)]
        await gate.until_asked(2)
        it.authorizer._timeout_s = 0.01
        for _ in range(3):
            with pytest.raises(GatewayError) as caught:
                await it.decide()
            assert caught.value.code is ErrorCode.AUTHORIZATION_UNAVAILABLE
            assert caught.value.retry_after_s == 1
            assert caught.value.detail == "no place for the question became free in time"
        assert it.authorizer.details() == {"up": True}
        it.authorizer._timeout_s = 30.0
        waiting = asyncio.create_task(it.decide())
        gate.answers.release()
        gate.answers.release()
        gate.answers.release()
        await asyncio.gather(*held, waiting)
        assert it.counted == ["unavailable"] * 3 + ["allowed"] * 3


async def test_callers_take_turns() -> None:
    gate, bob = Gate(), Caller(principal="key:bob")
    async with desk(gate.script, cache_s=0.0, timeout_s=30.0) as it:
        calls = [asyncio.create_task(it.decide()) for _ in range(20)]
        await gate.until_asked(2)
        calls += [asyncio.create_task(it.decide(caller=bob)) for _ in range(2)]
        await asyncio.sleep(0)
        for count in range(3, 8):
            gate.answers.release()
            await gate.until_asked(count)
        assert gate.asked[2:6].count("key:bob") == 2
        for call in calls[2:18]:
            call.cancel()
        for _ in range(24):
            gate.answers.release()
        assert [
            one for one in await asyncio.gather(*calls, return_exceptions=True) if isinstance(one, GatewayError)
        ] == []


async def test_a_caller_with_too_many_questions_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.auth.service.MAX_WAITING", 4)
    gate, bob = Gate(), Caller(principal="key:bob")
    async with desk(gate.script, cache_s=0.0, timeout_s=30.0, runs_on_failure=True) as it:
        calls = [asyncio.create_task(it.decide()) for _ in range(6)]
        await gate.until_asked(2)
        with pytest.raises(GatewayError, match="cannot be decided"):
            await it.decide()
        bobs = [asyncio.create_task(it.decide(caller=bob)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [call.done() for call in calls] == [False] * 4 + [True] * 2
        for _ in range(10):
            gate.answers.release()
        await asyncio.gather(*bobs, *calls[:4])
        assert it.counted == ["unavailable"] * 3 + ["allowed"] * 6
        assert all(isinstance(call.exception(), GatewayError) for call in calls[4:])


async def test_places_come_back_however_a_question_ends() -> None:
    gate = Gate()
    async with desk(gate.script, cache_s=0.0, timeout_s=30.0) as it:
        for round_ in range(3):
            calls = [asyncio.create_task(it.decide()) for _ in range(4)]
            await gate.until_asked(2 * round_ + 2)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
        for _ in range(9):
            gate.answers.release()
        await it.decide()
        assert it.counted == ["allowed"]
