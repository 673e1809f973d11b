"""Many callers at once, more than a tool server may be asked by, and callers that leave before their answer."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.live.faults.site import Site, site
from tests.support.calling import (
    WAYS,
    assert_unavailable,
    call,
    call_once,
    caller,
    connect,
    encoded_call,
    leave,
    value,
)
from tests.support.processes import GatewayProcess, until
from tests.support.toolserver import Exchange, Handler, echo

CROWD = 500
LEFT_WITHIN_S = 5.0  # from a caller's leaving to the end of its connections; by themselves they last 10 s and more


def gate() -> tuple[Handler, asyncio.Event]:
    """A tool that answers once the event is set."""
    opened = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await opened.wait()
        await echo(exchange)

    return wait, opened


async def settled(running: GatewayProcess) -> None:
    """Returns when the gateway has seen all that was sent before: it must still accept this connection and read it."""
    async with caller(running.url) as http:
        await http.get("/health")


@pytest.mark.anyio
async def test_of_five_hundred_callers_at_once_each_gets_its_own_answer() -> None:
    async with site({"Lab.Echo": echo}) as place:
        calls = [call_once(place.running.url, "Lab.Echo", {"n": number}) for number in range(CROWD)]
        answers = await asyncio.gather(*calls)
        assert [value(answer)["n"] for answer in answers] == list(range(CROWD))
        assert len(place.lab.calls("Lab.Echo")) == CROWD


@pytest.mark.anyio
async def test_calls_beyond_connections_and_queue_are_refused_at_once_and_all_others_run() -> None:
    waiting, opened = gate()
    async with site({"Lab.Gate": waiting}, max_concurrency=2, max_queue=2) as place:
        calls = [asyncio.create_task(call(place.http, "Lab.Gate", {"n": number})) for number in range(2)]
        await until(lambda: len(place.lab.calls("Lab.Gate")) == 2, "both connections are in use")
        calls += [asyncio.create_task(call(place.http, "Lab.Gate", {"n": number})) for number in range(2, 10)]
        await until(lambda: sum(task.done() for task in calls) == 6, "two more wait, six are refused")
        refused = [task for task in calls if task.done()]
        for task in refused:
            assert_unavailable(task.result())
        assert len(place.lab.calls("Lab.Gate")) == 2

        opened.set()
        accepted = [number for number, task in enumerate(calls) if task not in refused]
        assert [value(await calls[number])["n"] for number in accepted] == accepted
        assert sorted(request.call["input"]["n"] for request in place.lab.calls("Lab.Gate")) == accepted
        assert value(await call(place.http, "Lab.Gate", {"n": 11})) == {"n": 11}


@pytest.mark.anyio
async def test_without_a_queue_calls_still_run_as_long_as_connections_may_be_opened() -> None:
    async with site({"Lab.Echo": echo}, max_concurrency=2, max_queue=0) as place:
        assert value(await call(place.http, "Lab.Echo", {"n": 1})) == {"n": 1}


@pytest.mark.anyio
async def test_a_caller_that_leaves_frees_the_tool_servers_connection() -> None:
    """OXP has no way to cancel a call; hanging up on the tool server is the only hint there is."""
    hung_up: list[float] = []

    async def held(exchange: Exchange) -> None:
        await exchange.until_closed()
        hung_up.append(time.monotonic())

    async with site({"Lab.Held": held, "Lab.Echo": echo}, max_concurrency=1, timeout="20s") as place:
        for number, way in enumerate(WAYS, 1):
            _, writer = await connect(place.running.url)
            writer.write(encoded_call("Lab.Held"))
            await until(lambda: len(place.lab.calls("Lab.Held")) == number, "the call runs")  # noqa: B023
            left = time.monotonic()
            leave(writer, way)
            await until(lambda: len(hung_up) == number, f"the gateway hangs up when a caller {way}")  # noqa: B023
            assert hung_up[-1] - left < LEFT_WITHIN_S
            assert value(await call(place.http, "Lab.Echo", {"n": 1})) == {"n": 1}  # on the one connection there may be
            writer.close()
        assert len(place.lab.calls("Lab.Held")) == len(WAYS)


@pytest.mark.anyio
async def test_a_call_with_an_id_outlives_its_caller() -> None:
    waiting, opened = gate()
    async with site({"Lab.Gate": waiting}, timeout="20s") as place:
        for number, way in enumerate(WAYS, 1):
            _, writer = await connect(place.running.url)
            writer.write(encoded_call("Lab.Gate", {"it": "runs"}, call_id=f"k-{way}"))
            await until(lambda: len(place.lab.calls("Lab.Gate")) == number, "the call runs")  # noqa: B023
            leave(writer, way)
            writer.close()
        opened.set()
        for way in WAYS:
            assert value(await call(place.http, "Lab.Gate", {"it": "runs"}, call_id=f"k-{way}")) == {"it": "runs"}
        assert len(place.lab.calls("Lab.Gate")) == len(WAYS)
        await until(lambda: statuses(place).count(499) == len(WAYS), "each caller that left is logged as one")


def statuses(place: Site) -> list[int]:
    return [line["status"] for line in place.running.logged("request")]


@pytest.mark.anyio
async def test_a_caller_that_leaves_the_queue_frees_its_place_and_its_call_never_runs() -> None:
    waiting, opened = gate()
    async with site({"Lab.Gate": waiting}, max_concurrency=1, max_queue=1) as place:
        running = place.running
        first = asyncio.create_task(call_once(running.url, "Lab.Gate", {"n": 1}))
        await until(lambda: bool(place.lab.calls("Lab.Gate")), "the first call runs")
        _, writer = await connect(running.url)
        writer.write(encoded_call("Lab.Gate", {"n": 2}))
        await settled(running)
        assert_unavailable(await call_once(running.url, "Lab.Gate", {"n": 3}))

        writer.close()
        await settled(running)
        after = asyncio.create_task(call_once(running.url, "Lab.Gate", {"n": 4}))
        await settled(running)
        opened.set()
        assert value(await first) == {"n": 1}
        assert value(await after) == {"n": 4}
        assert [request.call["input"]["n"] for request in place.lab.calls("Lab.Gate")] == [1, 4]


@pytest.mark.anyio
async def test_a_caller_that_leaves_before_its_request_is_whole_has_not_called() -> None:
    async with site({"Lab.Echo": echo}) as place:
        reader, writer = await connect(place.running.url)
        writer.write(encoded_call("Lab.Echo", {"n": 1})[:-1])
        writer.write_eof()
        async with asyncio.timeout(LEFT_WITHIN_S):
            assert await reader.read() == b""
        writer.close()
        assert value(await call(place.http, "Lab.Echo", {"n": 2})) == {"n": 2}
        assert [request.call["input"] for request in place.lab.calls("Lab.Echo")] == [{"n": 2}]
