"""Tool servers that die with calls they have acknowledged: no caller waits for ever, and nothing runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.live.calls.site import Replica, callback_settings, ran, replica
from tests.support.calling import assert_unavailable, call, failure, result
from tests.support.processes import demo_server, until

LONG = {"seconds": 600}


@pytest.mark.anyio
async def test_a_call_that_died_with_its_tool_server_ends_with_its_time_and_never_runs_again() -> None:
    """The protocol has no way to ask what became of a call, so until then it may yet be answered."""
    async with demo_server("rap") as builds:
        config = callback_settings(builds.url, {"timeout": "300ms"}, state={"pending_ttl": "2s"})
        async with replica(config) as only:
            running = result(await call(only.http, "Builds.build", LONG, call_id="one"))
            assert (running["error"]["message"], running["error"]["can_retry"]) == ("The tool is still running.", True)
            await builds.kill()
            assert result(await call(only.http, "Builds.build", LONG, call_id="one")) == running
            assert_unavailable(await call(only.http, "Builds.build", LONG, call_id="two"))
            async with demo_server("rap", builds.port) as back:
                await until(lambda: _has_expired(only), "the call has had all its time")
                assert await ran(back) == []
                await until(lambda: _is_built(only), "the other call runs")


async def _is_built(at: Replica) -> bool:
    answer = result(await call(at.http, "Builds.build", {"seconds": 0}, call_id="two"))
    assert answer["success"] or answer["error"]["code"] == "still_running", answer
    return bool(answer["success"])


async def _has_expired(at: Replica) -> bool:
    answer = await call(at.http, "Builds.build", LONG, call_id="one")
    if answer.status_code == httpx.codes.OK:
        return False
    assert answer.json()["message"] == "The call with this call_id has expired."
    return True


@pytest.mark.anyio
async def test_a_route_that_cancels_ends_it_at_its_timeout() -> None:
    async with demo_server("rap") as builds:
        routes: Any = [{"tools": "*", "backend": "builds", "on_timeout": "cancel"}]
        async with replica(callback_settings(builds.url, {"timeout": "2s"}, routes=routes)) as only:

            async def runs() -> bool:
                return await ran(builds) == [1]

            asking = asyncio.create_task(call(only.http, "Builds.build", LONG, call_id="one"))
            await until(runs, "the call runs")
            await builds.kill()
            error = failure(await asking)
            assert error["message"] == "The tool took too long, and the gateway stopped waiting; it may have run."
            assert failure(await call(only.http, "Builds.build", LONG, call_id="one")) == error
