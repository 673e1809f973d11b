"""A call that is made again under the same id once that is allowed runs again, though RCRT never forgets a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import AGENT_ID, OWNER_ID, order, replica
from tests.support.calling import assert_unavailable, call, result, value
from tests.support.processes import DemoServer, demo_server, settings, until

pytestmark = pytest.mark.anyio

BACKEND = {"protocol": "rcrt", "owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": "Crumbs", "timeout": "20s"}
SOON = {"result_ttl": "1s", "seen_ttl": "1s"}  # after both of them a call is as if it had never been


@dataclass(frozen=True)
class Place:
    """A gateway that soon forgets, in front of a breadcrumb server."""

    crumbs: DemoServer
    http: httpx.AsyncClient

    async def call(self, tool: str, arguments: Any, call_id: str) -> httpx.Response:
        return await call(self.http, f"Crumbs.{tool}", arguments, call_id=call_id)

    async def runs(self, tool: str) -> int:
        """How often a tool has run."""
        async with plainhttp.async_client() as http:
            return int((await http.get(f"{self.crumbs.url}/executions")).json()["tools"][tool])


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    async with demo_server("rcrt") as crumbs:
        routes = [
            {"tools": "Crumbs.random", "backend": "crumbs", "idempotent": True},
            {"tools": "*", "backend": "crumbs"},
        ]
        config = settings({"crumbs": BACKEND | {"url": crumbs.url}}, state=SOON, routes=routes)
        async with replica(config) as only:
            yield Place(crumbs, only.http)


async def test_after_a_failure_that_may_be_repeated_the_tool_runs_again(place: Place) -> None:
    await order(place.crumbs, "random", "unparsable_output")
    exactly_seven = {"min": 7, "max": 7}
    first = result(await place.call("random", exactly_seven, "unreadable"))
    assert (first["success"], first["error"]["can_retry"]) == (False, True)
    assert value(await place.call("random", exactly_seven, "unreadable")) == {"numbers": [7]}
    assert await place.runs("random") == 2


async def test_after_a_refusal_the_tool_runs(place: Place) -> None:
    await order(place.crumbs, "create", "status_500")
    assert_unavailable(await place.call("timer", {"seconds": 0}, "refused"))
    assert value(await place.call("timer", {"seconds": 0}, "refused"))["waited"] == 0
    assert await place.runs("timer") == 1


async def test_after_a_call_is_forgotten_its_id_is_as_good_as_new(place: Place) -> None:
    assert value(await place.call("echo", {"message": "first"}, "again")) == {"echo": "first"}
    last: list[httpx.Response] = []

    async def runs() -> bool:
        """Refused as other content while the result is kept, then as expired, and then not at all."""
        last[:] = [await place.call("echo", {"message": "second"}, "again")]
        return last[0].status_code == httpx.codes.OK

    await until(runs, "the first call is forgotten")
    assert value(last[0]) == {"echo": "second"}
    assert await place.runs("echo") == 2
