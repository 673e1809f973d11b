"""Several workers are one gateway: callers, tool servers and operators cannot tell how many there are."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from functools import partial

import httpx
import pytest

from tests.live.workers.team import WORKERS, connections_from, details, is_alive, metric, pids, team
from tests.support.calling import Load, call_once, connect, value
from tests.support.changing import change, file_of
from tests.support.otlp import collecting
from tests.support.processes import STOP_S, GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, echo, tool_server
from tests.support.yard import WORK, yard

pytestmark = pytest.mark.anyio

MANY = 40  # calls over connections of their own: that all of them meet one worker of two happens once in 2^39 times
KEPT_OPEN = 100  # connections; that a worker of two gets less than a quarter happens once in ten million times
LIMIT = 15


async def test_calls_callbacks_limits_and_metrics_are_those_of_one_gateway(redis_url: str) -> None:
    limits = [{"name": "few", "key": "caller", "rate": "1/h", "burst": LIMIT, "tools": ["Lab.*"]}]
    async with tool_server({"Lab.Echo": echo}) as lab, yard() as tools:
        backends = {
            "lab": {"protocol": "otc", "url": lab.url},
            "yard": {"protocol": "callback", "url": tools.url, "timeout": "30s"},
        }
        async with team(redis_url, backends, rate_limits=limits) as running:
            health = await details(running)
            assert (health["status"], len(health["workers"])) == ("ok", WORKERS)
            assert all(worker["backends"].keys() == backends.keys() for worker in health["workers"])

            limited = [await call_once(running.url, "Lab.Echo") for _ in range(MANY)]
            assert sorted(answer.status_code for answer in limited) == [200] * LIMIT + [429] * (MANY - LIMIT)

            asking = [
                asyncio.create_task(call_once(running.url, WORK, {"number": number}, call_id=f"call-{number}"))
                for number in range(MANY)
            ]
            await until(lambda: len(tools.taken) == MANY, "every call is taken")
            assert set(await tools.call_back(range(MANY))) == {200}
            assert [value(await answer) for answer in asking] == [{"number": number} for number in range(MANY)]
            again = [
                await call_once(running.url, WORK, {"number": number}, call_id=f"call-{number}")
                for number in range(MANY)
            ]
            assert [value(answer) for answer in again] == [{"number": number} for number in range(MANY)]
            assert tools.ran_once

            assert await metric(running, "toolgate_requests_total", operation="call") == 3 * MANY
            assert await metric(running, "toolgate_callbacks_total", outcome="taken") == MANY
            assert await metric(running, "toolgate_catalogue_tools", backend="lab") == 1
            await _share_connections(running)
            await _stops_at_ctrl_c(running)


async def _share_connections(running: GatewayProcess) -> None:
    workers = await pids(running)
    ports: set[int] = set()
    async with AsyncExitStack() as stack:
        for _ in range(KEPT_OPEN):
            _, writer = await connect(running.url)
            stack.callback(writer.close)
            ports.add(writer.get_extra_info("sockname")[1])

        def shares() -> list[int]:
            return [connections_from(ports, pid) for pid in workers]

        await until(lambda: sum(shares()) == KEPT_OPEN, "every connection is accepted")
        assert min(shares()) >= KEPT_OPEN / 4


async def _stops_at_ctrl_c(running: GatewayProcess) -> None:
    workers = await pids(running)
    # A terminal sends it to the whole group of what it started; to a worker it would be a second signal.
    assert os.getpgid(running.process.pid) not in map(os.getpgid, workers)
    running.process.send_signal(signal.SIGINT)
    async with asyncio.timeout(STOP_S):
        assert await running.process.wait() == 0
    assert not any(is_alive(pid) for pid in workers)


async def test_a_worker_that_is_killed_breaks_its_own_calls_only_is_replaced_and_loses_no_outcome(
    redis_url: str,
) -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    tools_of_lab = {"Lab.Slow": slow, "Lab.Echo": echo, "Lab.Endless": Exchange.until_closed}
    async with tool_server(tools_of_lab) as lab, yard() as tools:
        backends = {
            "lab": {"protocol": "otc", "url": lab.url},
            "yard": {"protocol": "callback", "url": tools.url, "timeout": "30s"},
        }
        async with team(redis_url, backends) as running:
            for number in range(MANY):
                await call_once(running.url, "Lab.Echo", {"n": number})
            assert await metric(running, "toolgate_requests_total", operation="call") == MANY
            slowly = [asyncio.create_task(call_once(running.url, "Lab.Slow", {"n": number})) for number in range(MANY)]
            keyed = [
                asyncio.create_task(call_once(running.url, WORK, {"number": number}, call_id=f"call-{number}"))
                for number in range(MANY)
            ]
            await until(lambda: len(lab.calls("Lab.Slow")) == len(tools.taken) == MANY, "all calls run")
            victim, other = await pids(running)
            os.kill(victim, signal.SIGKILL)
            await until(lambda: any(task.done() for task in slowly), "its calls are cut off")
            # What comes now is served by the other, or waits for the next in the dead one's place.
            calls = [call_once(running.url, "Lab.Echo", {"n": number}) for number in range(MANY)]
            echoed = await asyncio.gather(*calls)
            assert [value(answer) for answer in echoed] == [{"n": number} for number in range(MANY)]
            assert set(await tools.call_back(range(MANY))) == {200}
            released.set()
            ends = await asyncio.gather(*slowly, return_exceptions=True)
            cut_off = [end for end in ends if isinstance(end, ConnectionError)]
            whole = [value(end) for end in ends if isinstance(end, httpx.Response)]
            assert len(cut_off) + len(whole) == MANY
            assert cut_off
            assert whole
            await asyncio.gather(*keyed, return_exceptions=True)
            for number in range(MANY):
                answer = await call_once(running.url, WORK, {"number": number}, call_id=f"call-{number}")
                assert value(answer) == {"number": number}
            assert tools.ran_once

            async def replaced() -> bool:
                now = await pids(running)
                return len(now) == WORKERS and victim not in now and other in now

            await until(replaced, "there is another worker")
            assert len(running.logged("a worker died")) == 1
            assert (
                await metric(running, "toolgate_requests_total", operation="call") >= 2 * MANY
            )  # echoed before and now
            await _stops_at_once_at_a_second_signal(running)


async def _stops_at_once_at_a_second_signal(running: GatewayProcess) -> None:
    endless = asyncio.create_task(call_once(running.url, "Lab.Endless"))
    workers = await pids(running)
    running.process.send_signal(signal.SIGTERM)
    # One of the supervisor, one of each worker that has begun to.
    await until(lambda: len(running.logged("draining")) == 1 + WORKERS, "it drains")
    running.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(STOP_S):
        assert await running.process.wait() == 0
    assert not any(is_alive(pid) for pid in workers)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await endless


async def test_one_signal_drains_all_workers_and_no_answer_is_lost(redis_url: str) -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    async with tool_server({"Lab.Slow": slow, "Lab.Echo": echo}) as lab:
        async with team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running:
            workers = await pids(running)
            load = Load(partial(call_once, running.url))
            slowly = [asyncio.create_task(call_once(running.url, "Lab.Slow", {"n": number})) for number in range(MANY)]
            callers = [asyncio.create_task(load.keep_calling()) for _ in range(4)]
            await until(lambda: len(load.answered) > MANY and len(lab.calls("Lab.Slow")) == MANY, "load")
            running.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*callers)
            assert all(is_alive(pid) for pid in workers), "one left while a call was running"
            released.set()
            assert [value(await answer) for answer in slowly] == [{"n": number} for number in range(MANY)]
            async with asyncio.timeout(STOP_S):
                assert await running.process.wait() == 0
            assert not any(is_alive(pid) for pid in workers)
            assert not [line for line in running.log_text().splitlines() if '"level":"error"' in line]
            lines = running.logged("request") + running.logged("draining")
            assert {(line.get("worker"), line.get("pid")) for line in lines} == {
                (None, None),  # the supervisor drains, too
                *enumerate(workers),
            }
        ran = [request.call["input"]["n"] for request in lab.calls("Lab.Echo")]
        assert set(ran).isdisjoint(load.unanswered), "a call that ran got no answer"
        assert sorted(ran) == sorted(load.answered)


async def test_workers_take_calls_until_the_delay_is_over_and_a_second_signal_ends_only_that(redis_url: str) -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    server = {"port": 0, "admin": {"port": 0}, "workers": 2, "drain_delay": "10m"}
    async with tool_server({"Lab.Slow": slow, "Lab.Echo": echo}) as lab:
        backends = {"lab": {"protocol": "otc", "url": lab.url}}
        async with gateway(settings(backends, server=server, state={"url": redis_url})) as running:
            slowly = asyncio.create_task(call_once(running.url, "Lab.Slow", {"n": 0}))
            await until(lambda: len(lab.calls("Lab.Slow")) == 1, "a call runs")
            running.process.send_signal(signal.SIGTERM)

            async def is_unready() -> bool:
                return all(worker["status"] == "draining" for worker in (await details(running))["workers"])

            await until(is_unready, "no worker is ready")
            for number in range(8):  # each to whichever worker the kernel chooses
                assert value(await call_once(running.url, "Lab.Echo", {"n": number})) == {"n": number}
            running.process.send_signal(signal.SIGTERM)

            async def is_refused() -> bool:
                try:
                    await call_once(running.url, "Lab.Echo", {"n": 9})
                except OSError:
                    return True
                return False

            await until(is_refused, "no more calls are taken")
            released.set()
            assert value(await slowly) == {"n": 0}
            async with asyncio.timeout(STOP_S):
                assert await running.process.wait() == 0


async def test_a_reload_reaches_all_workers_and_those_to_come_and_none_outlives_the_gateway(redis_url: str) -> None:
    async with (
        tool_server({"Lab.Echo": echo}) as lab,
        tool_server({"New.Echo": echo}) as new,
        team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running,
    ):
        config = json.loads(file_of(running).read_text())
        backend = {"protocol": "otc", "url": new.url}
        await change(running, config | {"backends": {"new": backend}, "routes": [{"tools": "*", "backend": "new"}]})
        os.kill((await pids(running))[0], signal.SIGKILL)
        for number in range(MANY):
            assert value(await call_once(running.url, "New.Echo", {"n": number})) == {"n": number}
        assert (await details(running))["reloads"] == {"ok": 1, "failed": 0}
        assert await metric(running, "toolgate_config_reloads_total", outcome="ok") == 1
        workers = [worker["pid"] for worker in (await details(running))["workers"]]
        running.process.kill()
        await until(lambda: not any(is_alive(pid) for pid in workers), "the workers have noticed")


async def test_what_workers_have_recorded_is_sent_before_they_end(redis_url: str) -> None:
    with collecting() as collector:
        telemetry = {"otlp": collector.url, "sample": 1, "headers": {"x-key": "secret"}, "service": "tools"}
        async with (
            tool_server({"Lab.Echo": echo}) as lab,
            team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}, telemetry=telemetry) as running,
        ):
            calls = [call_once(running.url, "Lab.Echo", {"n": number}, call_id=f"{number}") for number in range(MANY)]
            assert [value(answer)["n"] for answer in await asyncio.gather(*calls)] == list(range(MANY))
            running.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_S):
                assert await running.process.wait() == 0
    requests = collector.named("POST /tools/call")
    assert len(requests) == MANY
    assert len({span.resource["service.instance.id"] for span in requests}) == WORKERS
    assert {span.resource["service.name"] for span in requests} == {"tools"}
    assert collector.headers["x-key"] == "secret"
    begun = collector.named("state begin")
    assert len(begun) == MANY
    assert {(span.kind, span.attributes["db.system.name"]) for span in begun} == {("client", "redis")}
