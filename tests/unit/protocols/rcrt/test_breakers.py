"""Which answers to a request shut an RCRT server, and which do not."""

from __future__ import annotations

import pytest

from gateway.upstream.admission import BreakerRules
from tests.unit.net.client.scripted import Peer, serving
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.crumbs import facing, invocation, new_key
from tests.unit.upstream.admitting import admission
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

LASTING = BreakerRules(failures=2, open_for_s=600.0)


async def silent(peer: Peer) -> None:
    await peer.until_closed()


async def test_an_rcrt_server_that_stores_nothing_gets_no_requests_for_a_while(crumbs: Crumbs) -> None:
    way_in = admission(crumbs.url, breaker=LASTING)
    async with facing(crumbs.url, way_in=way_in) as (backend, kept):
        crumbs.order("create", "status_500", times=2)
        for _ in range(2):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        refused = new_key()
        error = await refusal(backend.dispatch(invocation("echo", refused), ""))
        assert error.retry_after_s is not None
        assert error.retry_after_s > 500
        assert crumbs.listed(tag=f"gateway:tg-{refused}") == []
        assert backend.open_calls == 0
        await backend.list_tools()
        again = new_key()
        await backend.dispatch(invocation("echo", again), "")
        assert (await kept.outcome(again)).failure is None
        assert (way_in.breaker, way_in.in_flight) == ("closed", 0)


async def test_requests_an_rcrt_server_refuses_do_not_count_against_it(crumbs: Crumbs) -> None:
    way_in = admission(crumbs.url, breaker=LASTING)
    async with facing(crumbs.url, way_in=way_in, token="t0k") as (backend, _):
        crumbs.order("create", "status_401", times=5)
        for _ in range(5):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        assert (way_in.breaker, way_in.replicas[0].breaker.failures) == ("closed", 0)


async def test_an_rcrt_server_that_is_gone_and_issues_no_tokens_is_refusing() -> None:
    async with serving(silent) as server:
        gone = server.url
    way_in = admission(gone, breaker=LASTING)
    async with facing(gone, way_in=way_in) as (backend, _):
        for _ in range(2):
            await refusal(backend.dispatch(invocation("echo", new_key()), ""))
        assert way_in.breaker == "open"
