"""Several replicas of one tool server, dead, frozen, failing and back again, each on a socket of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.net.client import TransportError
from gateway.protocols.otc.backend import HttpBackend
from gateway.upstream.admission import Admission, BreakerRules
from gateway.upstream.replica_url import Server
from tests.unit.net.client.scripted import Peer, Script, listening, serving, until
from tests.unit.net.client.scripted import Server as Scripted
from tests.unit.upstream.admitting import PATIENCE_S, admission
from tests.unit.upstream.facing import DEFINITION, IDEMPOTENT, INVOCATION, OK, backend_at, paths, refusal, reply

pytestmark = pytest.mark.anyio

EMPTY_LIST = reply(200, {"tools": []}, oxp_version="1.0")
LASTING = BreakerRules(failures=2, open_for_s=600.0)
OTHER = replace(INVOCATION, tool=replace(DEFINITION, tool="A.C", name="A_C", remote_id="A.C@1.0.0"))


def answer(call: bytes = OK, listing: bytes = EMPTY_LIST) -> Script:
    """Answers calls and lists, for as long as it is asked."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.send(listing if (await peer.request()).startswith(b"GET") else call)

    return script


@dataclass
class Fleet:
    """A backend, its way in, and the replicas behind it."""

    backend: HttpBackend
    way_in: Admission[Server]
    servers: list[Scripted]

    @property
    def states(self) -> list[str]:
        return [replica.breaker.state for replica in self.way_in.replicas]

    def calls(self, server: Scripted) -> int:
        return sum(request.startswith(b"POST") for request in server.requests)


@asynccontextmanager
async def fleet(*scripts: Script | None, breaker: BreakerRules = LASTING, **limits: Any) -> AsyncIterator[Fleet]:
    """A backend with a replica for each script; None: nothing listens there."""
    async with AsyncExitStack() as stack:
        servers = []
        for script in scripts:
            if script is None:
                async with serving(listening) as server:
                    servers.append(server)
            else:
                servers.append(await stack.enter_async_context(serving(script)))
        way_in = admission(*(server.url for server in servers), breaker=breaker, **limits)
        backend = await stack.enter_async_context(aclosing(backend_at(servers[0].url, way_in=way_in)))
        yield Fleet(backend, way_in, servers)
        assert (way_in.in_flight, way_in.queued, {one.in_flight for one in way_in.replicas}) == (0, 0, {0})


async def test_with_one_dead_replica_among_three_no_call_fails_and_soon_none_is_tried_there() -> None:
    async with fleet(answer(), None, answer()) as of:
        assert [(await of.backend.call(INVOCATION)).value for _ in range(20)] == [7] * 20
        assert of.states == ["closed", "open", "closed"]
        assert sum(map(of.calls, of.servers)) == 20


async def hang_up(peer: Peer) -> None:
    await peer.request()


async def test_a_call_that_was_sent_never_goes_to_another_replica() -> None:
    async with fleet(hang_up, hang_up) as of:
        result = await of.backend.call(INVOCATION)
        assert result.failure is not None
        assert result.failure.message == "The connection to the tool server broke; the tool may have run."
        assert sum(map(of.calls, of.servers)) == 1


async def test_what_may_run_twice_is_sent_again_to_another_replica() -> None:
    async with fleet(answer(), hang_up) as of:
        assert [(await of.backend.call(IDEMPOTENT)).value for _ in range(3)] == [7] * 3
        assert [of.calls(server) for server in of.servers] == [3, 2]
        assert of.states == ["closed", "open"]


async def test_what_may_run_twice_is_sent_twice_at_the_most_wherever_that_was() -> None:
    async with fleet(hang_up, hang_up, hang_up) as of:
        result = await of.backend.call(IDEMPOTENT)
        assert result.failure is not None
        assert (result.failure.can_retry, sum(map(of.calls, of.servers))) == (True, 2)


async def test_what_may_run_twice_goes_back_to_the_replica_that_broke_off_if_no_other_is_there() -> None:
    """It breaks the first call off and answers the second; the other replica is gone, which only the call finds out."""
    calls = 0

    async def hang_up_once(peer: Peer) -> None:
        nonlocal calls
        calls += 1
        await (hang_up if calls == 1 else answer())(peer)

    for others in ([], [None]):
        calls = 0
        async with fleet(*others, hang_up_once) as of:
            assert (await of.backend.call(IDEMPOTENT)).value == 7
            assert of.calls(of.servers[-1]) == 2


REPLICAS: dict[str, Script] = {
    **{f"status {status}": answer(reply(status, b"")) for status in (502, 503, 504)},
    "hung up": hang_up,
}
TOOLS: dict[str, Script] = {
    "status 500": answer(reply(500, b"Internal Server Error", "text/plain")),
    "status 501": answer(reply(501, b"")),
    "broken": answer(reply(200, b"{")),
    "redirect": answer(reply(302, b"")),
    "no HTTP": answer(b"SMTP ready\r\n\r\n"),
    "too slow": listening,
}


@pytest.mark.parametrize("script", REPLICAS.values(), ids=REPLICAS)
async def test_a_server_that_fails_before_it_answers_is_shut(script: Script) -> None:
    async with fleet(script) as of:
        assert all([(await of.backend.call(INVOCATION)).failure for _ in range(2)])
        assert of.states == ["open"]
        for invocation in (INVOCATION, OTHER):
            assert_shut(await refusal(of.backend.call(invocation)))
        assert of.calls(of.servers[0]) == 2


@pytest.mark.parametrize("script", TOOLS.values(), ids=TOOLS)
async def test_a_tool_that_fails_is_shut_and_its_server_only_with_another(script: Script) -> None:
    timeout_s = PATIENCE_S if script is listening else 5.0
    async with fleet(script) as of:
        calls = [of.backend.call(replace(INVOCATION, timeout_s=timeout_s)) for _ in range(2)]
        assert all(result.failure for result in await asyncio.gather(*calls))
        assert (of.states, of.way_in.tools_shut) == (["closed"], 1)
        assert_shut(await refusal(of.backend.call(INVOCATION)))
        assert of.calls(of.servers[0]) == 2
        assert all([(await of.backend.call(replace(OTHER, timeout_s=timeout_s))).failure for _ in range(2)])
        assert (of.states, of.calls(of.servers[0])) == (["open"], 4)


def assert_shut(error: GatewayError) -> None:
    assert error.retry_after_s is not None
    assert (error.code, 500 < error.retry_after_s <= 660) == (ErrorCode.BACKEND_UNAVAILABLE, True)


HARMLESS: dict[str, bytes] = {
    **{f"status {status}": reply(status, {"message": "No."}) for status in (400, 401, 403, 404, 408, 422, 429)},
    "status 410": reply(410, b""),
    "tool error": reply(200, {"call_id": "tg-1", "success": False, "error": {"message": "No."}}),
}


@pytest.mark.parametrize("call", HARMLESS.values(), ids=HARMLESS)
async def test_what_the_tool_server_says_no_to_is_no_failure_of_it(call: bytes) -> None:
    async with fleet(answer(call)) as of:
        for _ in range(5):
            await asyncio.gather(of.backend.call(INVOCATION), return_exceptions=True)
        assert (of.states, of.way_in.tools_shut) == (["closed"], 0)
        assert of.way_in.replicas[0].breaker.failures == 0


async def test_callers_that_leave_cannot_take_a_tool_server_away_from_others() -> None:
    async with fleet(listening) as of:
        leaving = [asyncio.create_task(of.backend.call(INVOCATION)) for _ in range(10)]
        await until(lambda: of.calls(of.servers[0]) == 10)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        assert (of.states, of.way_in.tools_shut) == (["closed"], 0)


async def test_discovery_that_works_again_lets_one_call_find_out_about_the_others() -> None:
    failing = True

    async def fail_at_first(peer: Peer) -> None:
        while True:
            request = await peer.request()
            broken = reply(503, b"") if failing else OK
            await peer.send(EMPTY_LIST if request.startswith(b"GET") else broken)

    async with fleet(fail_at_first) as of:
        for _ in range(2):
            await of.backend.call(INVOCATION)
        assert of.states == ["open"]
        await of.backend.list_tools()
        assert (await of.backend.call(INVOCATION)).failure is not None
        await refusal(of.backend.call(INVOCATION))
        failing = False
        await of.backend.list_tools()
        assert [(await of.backend.call(INVOCATION)).value for _ in range(3)] == [7] * 3
        assert of.states == ["closed"]


@pytest.mark.parametrize("dead", [None, answer(listing=reply(500, b"")), answer(listing=reply(200, b"[1]"))])
async def test_any_replica_that_can_be_asked_lists_the_tools(dead: Script | None) -> None:
    async with fleet(dead, answer(), dead) as of:
        for _ in range(3):
            assert (await of.backend.list_tools()).tools == ()
        assert of.states == ["closed"] * 3


async def test_a_list_that_cannot_be_had_anywhere_says_why() -> None:
    async with fleet(None, answer(listing=reply(500, b""))) as of:
        error = await refusal(of.backend.list_tools())
        assert error.detail is not None
        assert "status 500" in error.detail or "connect" in error.detail


async def test_a_challenge_is_checked_at_the_replica_it_is_about() -> None:
    other = answer(listing=reply(200, {"status": "completed"}))
    async with fleet(answer(listing=reply(404, {})), other) as of:
        assert await of.backend.challenge_status(of.servers[1].url + "/check") == "completed"
        assert await of.backend.challenge_status(of.servers[0].url + "/check") == "failed"
        assert paths(of.servers[1]) == ["/check"]


async def test_a_check_url_at_another_replica_is_the_backends_own() -> None:
    async with serving(answer()) as second:
        challenge = {"id": "ch", "url": "https://x.example", "check_url": second.url + "/check"}
        missing = {"authorization": [challenge]}
        first = answer(reply(400, {"message": "Connect.", "missing_requirements": missing}))
        async with serving(first) as server:
            backend = backend_at(server.url, way_in=admission(second.url, server.url))
            error = await refusal(backend.call(INVOCATION))
            await backend.aclose()
    assert error.missing == missing


async def test_time_in_the_queue_is_part_of_a_calls_time() -> None:
    """The second call gets in when most of its time has passed, and has no more than the rest afterwards."""
    held: list[Peer] = []

    async def hold(peer: Peer) -> None:
        await peer.request()
        held.append(peer)
        await peer.stay()

    async with fleet(hold, concurrency=1, queue=1) as of:
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(of.backend.call(replace(INVOCATION, timeout_s=0.8)))
        await until(lambda: len(held) == 1)
        begun = loop.time()
        result = await of.backend.call(replace(INVOCATION, timeout_s=1.2))
        took = loop.time() - begun
        await first
        assert result.failure is not None
        assert "1.2 seconds" in result.failure.message
        assert 1.15 < took < 1.9  # and not 0.8 + 1.2
        assert len(held) == 2


async def test_a_request_that_cannot_be_written_counts_against_no_replica() -> None:
    async with fleet(answer(), answer()) as of:
        forged = replace(INVOCATION, headers=((b"x", b"a\r\nb: c"),))
        error = await refusal(of.backend.call(forged))
        assert isinstance(error.__cause__, TransportError)
        assert [replica.breaker.failures for replica in of.way_in.replicas] == [0, 0]
