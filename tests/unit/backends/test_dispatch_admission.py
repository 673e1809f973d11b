"""Tool servers that answer later: calls are handed to them through the same limits and the same breaker."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.upstream.admission import BreakerRules
from tests.unit.backends.admitting import admission
from tests.unit.backends.calling_back import CALLBACK_URL, INVOCATION, Toolset, facing
from tests.unit.backends.conftest import Crumbs
from tests.unit.backends.crumbs import facing as facing_crumbs
from tests.unit.backends.crumbs import invocation, new_key
from tests.unit.backends.facing import refusal, reply
from tests.unit.dispatch_gate import RecordingGate
from tests.unit.net.client.scripted import Peer, Script, serving

pytestmark = pytest.mark.anyio

LASTING = BreakerRules(failures=2, open_for_s=600.0)


async def silent(peer: Peer) -> None:
    await peer.until_closed()


OTHER = replace(INVOCATION, tool=replace(INVOCATION.tool, remote_id="Other"))


NOT_TAKEN: list[tuple[bytes | Script, bool]] = [(reply(500, b""), False), (silent, False), (reply(503, b""), True)]


@pytest.mark.parametrize(
    ("acknowledgement", "shuts_server"), NOT_TAKEN, ids=["status 500", "none in time", "status 503"]
)
async def test_a_callback_tool_or_server_that_takes_no_calls_gets_none_for_a_while(
    acknowledgement: bytes | Script, shuts_server: bool
) -> None:
    toolset = Toolset(acknowledgement)
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(2):
            await at.backend.dispatch(replace(INVOCATION, timeout_s=0.3), CALLBACK_URL)
        error = await refusal(at.backend.dispatch(INVOCATION, CALLBACK_URL))
        assert (error.code, len(toolset.noted)) == (ErrorCode.BACKEND_UNAVAILABLE, 2)
        assert at.way_in.breaker == ("open" if shuts_server else "closed")
        await at.backend.list_tools()  # it answers that, so one call may find out
        toolset.acknowledgement = reply(200, b"")
        assert await at.backend.dispatch(INVOCATION if shuts_server else OTHER, CALLBACK_URL) is None
        assert (at.way_in.breaker, at.way_in.in_flight) == ("closed", 0)


@pytest.mark.parametrize("acknowledgement", [reply(500, b""), silent], ids=["status 500", "none in time"])
async def test_a_callback_server_that_calls_back_first_goes_on_getting_calls(acknowledgement: bytes | Script) -> None:
    toolset = Toolset(acknowledgement)
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(3):
            answered = RecordingGate(answered=True)
            assert await at.backend.dispatch(replace(INVOCATION, timeout_s=0.3), CALLBACK_URL, answered) is None
        assert (at.way_in.breaker, at.way_in.tools_shut, at.way_in.in_flight, len(toolset.noted)) == ("closed", 0, 0, 3)


@pytest.mark.parametrize("status", [400, 401, 429])
async def test_a_callback_server_that_refuses_calls_goes_on_getting_them(status: int) -> None:
    toolset = Toolset(reply(status, b""))
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(5):
            assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is not None
        assert len(toolset.noted) == 5


async def test_an_rcrt_server_that_stores_nothing_gets_no_requests_for_a_while(crumbs: Crumbs) -> None:
    way_in = admission(crumbs.url, breaker=LASTING)
    async with facing_crumbs(crumbs.url, way_in=way_in) as (backend, kept):
        crumbs.order("create", "status_500", times=2)
        for _ in range(2):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        refused = new_key()
        error = await refusal(backend.dispatch(invocation("echo", refused), ""))
        assert error.retry_after_s is not None
        assert error.retry_after_s > 500
        assert crumbs.listed(tag=f"gateway:{refused}") == []
        assert backend.open_calls == 0
        await backend.list_tools()
        again = new_key()
        await backend.dispatch(invocation("echo", again), "")
        assert (await kept.outcome(again)).failure is None
        assert (way_in.breaker, way_in.in_flight) == ("closed", 0)


async def test_requests_an_rcrt_server_refuses_do_not_count_against_it(crumbs: Crumbs) -> None:
    way_in = admission(crumbs.url, breaker=LASTING)
    async with facing_crumbs(crumbs.url, way_in=way_in, token="t0k") as (backend, _):
        crumbs.order("create", "status_401", times=5)
        for _ in range(5):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        assert (way_in.breaker, way_in.replicas[0].breaker.failures) == ("closed", 0)


async def test_an_rcrt_server_that_is_gone_and_issues_no_tokens_is_refusing() -> None:
    async with serving(silent) as server:
        gone = server.url
    way_in = admission(gone, breaker=LASTING)
    async with facing_crumbs(gone, way_in=way_in) as (backend, _):
        for _ in range(2):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        assert way_in.breaker == "open"
