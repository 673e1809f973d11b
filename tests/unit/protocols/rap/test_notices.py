"""Notices to a callback tool server: each goes once, none delays a call, and there are never too many."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.model import CallKey
from gateway.net.client import Pool
from gateway.protocols.rap.notices import CLOSE_WITHIN_S, MAX_WAITING, SENDERS, Notices
from gateway.protocols.rap.targets import CallbackTargets
from tests.unit.net.client.scripted import Peer, serving, stats_of, until
from tests.unit.protocols.rap.calling_back import CALL_ID, GROUP, KEY, LONE, Toolset, facing
from tests.unit.upstream.admitting import admission
from tests.unit.upstream.facing import reply

pytestmark = pytest.mark.anyio

CANCELLED = ("/cancel_tool_call", {"thread_id": GROUP, "tool_call_id": CALL_ID})


@pytest.mark.parametrize("answer", [reply(404, b""), reply(500, b""), b"SMTP ready\r\n\r\n"])
async def test_a_notice_that_fails_is_not_sent_again(answer: bytes) -> None:
    toolset = Toolset(answer)
    async with facing(toolset) as at:
        await at.backend.cancel(KEY, "", LONE)
        await until(lambda: len(toolset.noted) >= 2)
    assert sorted(path for path, _ in toolset.noted) == ["/cancel_tool_call", "/close_thread"]


async def test_notices_to_a_tool_server_that_takes_none_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async def never(peer: Peer) -> None:
        await peer.stay()

    toolset, dropped = Toolset(never), list[None]()
    async with facing(toolset, count_dropped=lambda: dropped.append(None)) as at:
        for number in range(MAX_WAITING + 5):
            await at.backend.cancel(CallKey(f"{number}"), "", GROUP)
        await until(lambda: len(toolset.noted) == SENDERS)
        started = asyncio.get_running_loop().time()
        await at.backend.aclose()
        assert asyncio.get_running_loop().time() - started < 2 * CLOSE_WITHIN_S
        await at.backend.cancel(CallKey("late"), "", GROUP)
    assert len(toolset.noted) == SENDERS
    assert len(dropped) == MAX_WAITING + 5 + 1 - SENDERS
    assert caplog.text.count("notices are dropped") == 1


async def test_a_notice_under_way_may_arrive_before_the_end() -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        await at.backend.cancel(KEY, "", GROUP)
        await at.backend.aclose()
    assert toolset.noted == [CANCELLED]


async def test_all_notices_arrive_once_and_their_senders_send_the_next() -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        for turn in range(3):
            calls = [f"tg-{turn}-{number}" for number in range(3 * SENDERS)]
            for call_id in calls:
                await at.backend.cancel(CallKey(call_id.removeprefix("tg-")), "", GROUP)
            await until(lambda: len(toolset.noted) >= 3 * SENDERS)
            assert sorted(body["tool_call_id"] for _, body in toolset.noted) == sorted(calls)
            toolset.noted.clear()


async def test_the_caller_of_a_call_that_ends_has_a_turn_of_the_loop_before_the_notice_is_sent() -> None:
    """The answer is written then, and leaves at the end of that turn."""
    toolset, loop = Toolset(), asyncio.get_running_loop()

    async def hears(end: asyncio.Future[None], pool: Pool) -> list[bool]:
        await end
        now = stats_of(pool).is_unused
        await asyncio.sleep(0)
        return [now, stats_of(pool).is_unused]

    async with serving(toolset) as server:
        replicas = admission(server.url).replicas
        targets, pool = CallbackTargets(replicas, {}), replicas[0].target.pool
        notices = Notices("builds", targets, lambda _: (), lambda: None)
        for count in (1, 2):  # at the second there are already senders
            end = loop.create_future()
            waiting = asyncio.create_task(hears(end, pool))
            await asyncio.sleep(0)
            end.set_result(None)
            notices.end(f"tg-{count}", f"{LONE}-{count}")
            assert await waiting == [True, True]
            await until(lambda: stats_of(pool).is_unused and len(toolset.noted) == count)  # noqa: B023 - called at once
        await notices.aclose()
        await pool.aclose()
