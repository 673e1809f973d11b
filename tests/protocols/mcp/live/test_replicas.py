"""Legacy callers of MCP and two replicas on one Redis: nothing of a session is at the replica that it began at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.calls.site import KEY, pair
from tests.live.calls.test_killed_replica import accepted
from tests.protocols.mcp.live.callers import begin, line, say
from tests.protocols.mcp.live.desk import Desk
from tests.protocols.mcp.live.test_listening import replica
from tests.support.processes import settings, until
from tests.support.redis_server import running_redis
from tests.support.tokens import api_key
from tests.support.toolserver import tool_server
from tests.support.yard import Yard, yard

pytestmark = pytest.mark.anyio

STREAMING = {"stream_after": "100ms"}
WORK, DESK = "Yard_work", "Desk_work"
ADA, BOB = "the key of ada", "the key of bob"
AUTH = {"api_keys": [api_key("ada", ADA), api_key("bob", BOB)]}


def known(key: str) -> dict[str, str]:
    return {"OTC-API-Key": key}


@dataclass
class Floor:
    """Two replicas, and tools that work until they are let go."""

    a: str
    b: str
    tools: Yard
    desk: Desk


@asynccontextmanager
async def floor(directory: Path) -> AsyncIterator[Floor]:
    """Runs everything; the replicas are in this process."""
    work = Desk()
    with running_redis(directory) as redis:
        async with yard() as tools, tool_server({"Desk.work": work.exchange}) as desk:
            backends = {
                "yard": {"protocol": "callback", "url": tools.url, "timeout": "60s"},
                "desk": {"protocol": "otc", "url": desk.url, "timeout": "60s"},
            }
            state = {"url": redis.url, "keys": [KEY]}
            config = settings(backends, auth=AUTH, state=state, mcp=STREAMING)
            config["server"]["callback_url"] = "http://127.0.0.1:1"  # nobody calls back here
            async with replica(config) as (_, a), replica(config) as (_, b):
                yield Floor(a, b, tools, work)


async def test_mcp_04_41_a_session_goes_on_where_its_replica_has_died(tmp_path: Path) -> None:
    """Also 37: a request that comes again there joins its first run. The tool server calls the replica that is left."""
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": "60s"}, mcp=STREAMING) as (a, b):
            session = await begin(a.running.url)
            async with (
                line(a.running.url, session.call(1, WORK, {"number": 1})) as streams,
                line(a.running.url, session.call(2, WORK, {"number": 2})) as silent,
            ):
                event = await streams.primed()
                await until(lambda: accepted(redis) == 2, "both calls are with the tool server")
                await a.kill()
                await streams.broken()
                await silent.broken()

            url = b.running.url
            async with line(url, session.ask("tools/list")) as listing:
                assert [tool["name"] for tool in (await listing.result())["tools"]] == [WORK]
            async with (
                line(url, session.call(3, WORK, {"number": 3})) as new,
                line(url, session.call(2, WORK, {"number": 2})) as again,
                line(url, session.resume(event)) as back,
            ):
                assert await back.primed() == event
                await until(lambda: len(tools.taken) == 3, "the new call is with the tool server")
                assert await tools.call_back([1, 2]) == [200, 200]
                answers = [await on.answer() for on in (back, again)]
                assert [(each["id"], each["result"]["structuredContent"]) for each in answers] == [
                    (1, {"number": 1}),
                    (2, {"number": 2}),
                ]
                new.leave()
            assert tools.ran_once


async def test_mcp_41_an_answer_that_was_lost_on_its_way_is_delivered_by_another_replica(tmp_path: Path) -> None:
    async with floor(tmp_path) as it:
        session, other = await begin(it.a, known(ADA)), await begin(it.a, known(BOB))
        async with line(it.a, session.call(0, DESK, {"number": 1})) as on:
            event = await on.primed()
        assert [await say(it.b, one) for one in (other.resume(event), session.resume(event + "A"))] == [405, 405]
        async with line(it.b, session.resume(event)) as back:
            await back.begun()
            await it.desk.finish()
            answer = await back.answer()
        async with line(it.b, session.resume(event)) as back:
            assert await back.answer() == answer
        assert (answer["id"], answer["result"]["structuredContent"]) == (0, {"number": 1})
        assert it.desk.begun == 1


async def test_mcp_40_a_call_is_cancelled_at_another_replica_by_its_own_session_alone(tmp_path: Path) -> None:
    async with floor(tmp_path) as it:
        session, same, other = [await begin(it.a, known(key)) for key in (ADA, ADA, BOB)]
        async with (
            line(it.a, session.call(1, DESK)) as at_desk,
            line(it.a, session.call(2, WORK, {"number": 2})) as at_yard,
            line(it.a, session.call(3, DESK, {"number": 3})) as stays,
        ):
            await until(lambda: it.desk.begun == 2 and len(it.tools.taken) == 1, "all are at work")
            strays = [same.cancelled(3), other.cancelled(3), session.by(known(BOB)).cancelled(3), session.cancelled(4)]
            cancels = [session.cancelled(1), session.cancelled(2)]
            assert [await say(it.b, one) for one in (*strays, *cancels)] == [202] * 6
            for on in (at_desk, at_yard):
                assert await on.answer() is None  # 2025-11-25, Cancellation
            await until(lambda: it.desk.stopped == 1, "the gateway hangs up")
            await until(lambda: it.tools.cancelled == [it.tools.taken[2]["id"]], "the tool server is notified")
            await it.desk.finish()
            assert (await stays.result())["structuredContent"] == {"number": 3}
