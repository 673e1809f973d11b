"""Breadcrumbs whose stream drops, breaks, is deaf or ends: a call ends with its value all the same (RCRT, Events)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from gateway.protocols.rcrt.tokens import BETWEEN_TOKENS_S
from tests import plainhttp
from tests.live.calls.site import AGENT_ID, OWNER_ID, order, outcome, replica, taken
from tests.support.calling import assert_unavailable, call, call_once, failure, result, value
from tests.support.processes import DemoServer, GatewayProcess, Settings, demo_server, settings, until

CROWDS = [150, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.alone])]  # calls at once, all on one stream
HELLO = {"message": "hello"}
LISTENERS = ("One", "Two", "Three")  # backends of one server, each with a stream and a toolkit of its own


def backend(crumbs: DemoServer, toolkit: str) -> Settings:
    return {
        "protocol": "rcrt",
        "url": crumbs.url,
        "owner_id": OWNER_ID,
        "agent_id": AGENT_ID,
        "toolkit": toolkit,
        "timeout": "40s",
    }


@dataclass(frozen=True)
class Place:
    """A gateway in front of a breadcrumb server."""

    crumbs: DemoServer
    gateway: GatewayProcess
    http: httpx.AsyncClient


@pytest.fixture(scope="module")
async def calm() -> AsyncIterator[Place]:
    """One where nothing happens to the stream."""
    state = {"max_pending_per_caller": 10_000}  # on a busy machine many of a crowd are asked for more than once
    async with (
        demo_server("rcrt") as crumbs,
        replica(settings({"crumbs": backend(crumbs, "Crumbs")}, state=state)) as only,
    ):
        yield Place(crumbs, only.running, only.http)


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    """One that knows its server by three names, and so has three streams.

    The first to be opened is deaf and the second silent; which these are is left to chance.
    """
    async with demo_server("rcrt") as crumbs:
        for fault in ("deaf", "silent"):
            await order(crumbs, "stream", fault)
        backends = {name.lower(): backend(crumbs, name) for name in LISTENERS}
        async with replica(settings(backends)) as only:
            yield Place(crumbs, only.running, only.http)


@pytest.mark.anyio
async def test_whatever_is_lost_of_events_a_call_ends_with_its_value(place: Place) -> None:
    """All at once, since each takes as long as it takes to suspect a stream or to poll beside one that seems well."""
    assert await taken(place.crumbs)  # two of the three streams will tell nothing
    for tool, fault in (("random", "drop_event"), ("json-transform", "big_output")):
        await order(place.crumbs, tool, fault)
    await remove(place.crumbs, "timer")
    async with asyncio.TaskGroup() as group:
        for name in LISTENERS:
            group.create_task(answers(place, f"{name}.echo", HELLO, {"echo": "hello"}))
        group.create_task(answers(place, "One.random", {"min": 7, "max": 7}, {"numbers": [7]}))
        group.create_task(is_large(place, "Two.json_transform"))
        group.create_task(is_unknown(place, "Three.timer"))
    gave_up = [line["reason"] for line in place.gateway.logged("an event stream broke off")]
    assert len(gave_up) >= 2
    assert "our own request did not come back as an event" in gave_up


async def answers(place: Place, tool: str, arguments: Any, expected: Any) -> None:
    assert value(await call(place.http, tool, arguments)) == expected


async def is_large(place: Place, tool: str) -> None:
    """More than an event may hold, and more than is kept: it is stored and never announced, and who waits gets it."""
    assert len(value(await call(place.http, tool, HELLO))["text"]) > 2**20


async def is_unknown(place: Place, tool: str) -> None:
    """The one response without the tag of its request."""
    error = failure(await call(place.http, tool, {"seconds": 0}))
    assert error["message"] == "The tool server no longer knows the tool; it has not run."


async def remove(crumbs: DemoServer, tool: str) -> None:
    """Deletes a tool, of which no event tells."""
    async with plainhttp.async_client(base_url=crumbs.url) as http:
        identity = {"owner_id": OWNER_ID, "agent_id": AGENT_ID}
        token = (await http.post("/auth/token", json=identity)).json()["token"]
        found = await http.get("/breadcrumbs", params={"schema_name": "tool.code.v1", "tag": f"tool:{tool}"})
        (crumb,) = found.json()
        deleted = await http.delete(f"/breadcrumbs/{crumb['id']}", headers={"Authorization": f"Bearer {token}"})
        assert deleted.status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["abrupt_end", "clean_end"])
async def test_streams_that_end_during_a_call_cost_time_and_not_its_value(place: Place, fault: str) -> None:
    await order(place.crumbs, "stream", fault)
    end = await outcome(place.http, "One.echo", HELLO, fault)
    assert end["value"] == {"echo": "hello"}
    assert set(await executions(place)) == {1}


async def executions(place: Place) -> list[int]:
    """How often each request was run."""
    async with plainhttp.async_client() as http:
        return list((await http.get(f"{place.crumbs.url}/executions")).json()["requests"].values())


@pytest.mark.anyio
async def test_a_response_later_than_its_caller_would_wait_is_there_when_asked_for(place: Place) -> None:
    await order(place.crumbs, "random", "late", seconds=1.5)
    arguments = {"min": 42, "max": 42}
    request = {"tool_id": "One.random", "input": arguments, "call_id": "late"}
    first = await place.http.post("/otc/tools/call", json={"request": request}, headers={"prefer": "wait=1"})
    assert (result(first)["success"], result(first)["error"]["can_retry"]) == (False, True)
    assert (await outcome(place.http, "One.random", arguments, "late"))["value"] == {"numbers": [42]}


@pytest.mark.anyio
async def test_a_token_that_is_no_longer_good_is_replaced(calm: Place) -> None:
    await asyncio.sleep(BETWEEN_TOKENS_S)  # one that is refused at once is not asked for again
    await order(calm.crumbs, "auth", "status_401")
    assert value(await call(calm.http, "Crumbs.echo", HELLO)) == {"echo": "hello"}
    assert await taken(calm.crumbs)


@pytest.mark.anyio
async def test_while_only_expired_tokens_are_issued_calls_are_refused_and_afterwards_they_are_not(calm: Place) -> None:
    await asyncio.sleep(BETWEEN_TOKENS_S)
    for what, fault in (("auth", "status_401"), ("token", "expired")):
        await order(calm.crumbs, what, fault)
    assert_unavailable(await call(calm.http, "Crumbs.echo", HELLO))

    async def works_again() -> bool:
        return (await call(calm.http, "Crumbs.echo", HELLO)).status_code == httpx.codes.OK

    await until(works_again, "a good token is used")
    assert await taken(calm.crumbs)


@pytest.mark.anyio
@pytest.mark.parametrize("many", CROWDS)
async def test_many_calls_at_once_on_one_stream_are_each_given_their_own_answer(calm: Place, many: int) -> None:
    answers = await asyncio.gather(*(echo_of(calm, f"m{number}") for number in range(many)))
    assert answers == [f"m{number}" for number in range(many)]
    runs = await executions(calm)
    assert (len(runs) >= many, set(runs)) == (True, {1})
    assert len(calm.gateway.logged("an event stream is open")) == 1


async def echo_of(place: Place, message: str) -> Any:
    """Calls again what did not even get through: on a busy machine the server may not take so many within 10 s."""
    while (answer := await call_once(place.gateway.url, "Crumbs.echo", {"message": message})).status_code == 400:
        assert_unavailable(answer)
        await asyncio.sleep(float(answer.headers["retry-after"]))
    return value(answer)["echo"]


@pytest.mark.anyio
async def test_a_repeated_call_joins_the_one_that_runs(place: Place) -> None:
    arguments = {"min": 0, "max": 10**9}
    answers = await asyncio.gather(*(call(place.http, "One.random", arguments, call_id="one") for _ in range(5)))
    assert len({value(answer)["numbers"][0] for answer in answers}) == 1
