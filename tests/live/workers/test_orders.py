"""Orders that not all workers can carry out, and signals that come twice: callers meet one gateway."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.live.workers.team import WORKERS, details, metric, pids, team
from tests.support.authority import Authority
from tests.support.calling import call_once, value
from tests.support.changing import change, file_of
from tests.support.processes import STOP_S, GatewayProcess, Settings, until
from tests.support.toolserver import Exchange, echo, tool_server

pytestmark = pytest.mark.anyio

MANY = 40  # calls over connections of their own: that all of them meet one worker of two happens once in 2^39 times
BROKEN = "the configuration could not be applied; the last good one stays in use"


async def test_what_one_worker_cannot_put_to_use_the_others_give_up_again(redis_url: str, tmp_path: Path) -> None:
    """Ours: of two calls of a caller one would go by the new configuration and the other by the old one."""
    authority = Authority(tmp_path)
    async with (
        tool_server({"Lab.Echo": echo}) as lab,
        team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running,
    ):
        workers = await pids(running)
        await _half_applied(running, authority.path)
        for number in range(MANY):
            assert value(await call_once(running.url, "Lab.Echo", {"n": number})) == {"n": number}
        assert await pids(running) == workers
        shown = await details(running)
        assert (shown["reloads"], shown["last_reload_successful"]) == ({"ok": 0, "failed": 1}, False)
        assert await metric(running, "toolgate_config_reloads_total", outcome="failed") == 1


def _nowhere(ca: str) -> Settings:
    """A backend that does not answer, and whose settings name a file."""
    return {"protocol": "otc", "url": "https://127.0.0.1:1", "tls": {"ca": ca}}


async def _half_applied(running: GatewayProcess, ca: str) -> None:
    """Has one of two workers take a configuration that the other one cannot: its file is gone before that reads it."""
    stopped = (await pids(running))[0]
    os.kill(stopped, signal.SIGSTOP)
    config = json.loads(file_of(running).read_text())
    more = {"backends": {"new": _nowhere(ca)}, "routes": [{"tools": "*", "backend": "new"}]}
    reload = asyncio.create_task(change(running, config | more, expects=BROKEN))

    async def taken() -> bool:
        return any("new" in worker.get("backends", ()) for worker in (await details(running))["workers"])

    await until(taken, "the other worker has taken it")
    os.unlink(ca)
    os.kill(stopped, signal.SIGCONT)
    await reload
    (line,) = running.logged(BROKEN)
    assert (line["level"], line["reason"]) == ("warning", "A worker could not put the configuration to use.")


async def test_while_a_worker_cannot_be_replaced_its_callers_are_the_others(redis_url: str, tmp_path: Path) -> None:
    """Connections in its queue are closed, instead of waiting for a worker that does not come."""
    authority = Authority(tmp_path)
    async with tool_server({"Lab.Echo": echo}) as lab:
        backends = {"lab": {"protocol": "otc", "url": lab.url}, "other": _nowhere(authority.path)}
        async with team(redis_url, backends) as running:
            one, other = await pids(running)
            os.rename(authority.path, f"{authority.path}.kept")
            os.kill(other, signal.SIGKILL)
            await until(
                lambda: any("reason" in line for line in running.logged("a worker died")), "no worker can start"
            )
            for number in range(MANY):
                assert value(await call_once(running.url, "Lab.Echo", {"n": number})) == {"n": number}
            assert await pids(running) == [one]
            os.rename(f"{authority.path}.kept", authority.path)

            async def replaced() -> bool:
                return len(await pids(running)) == WORKERS

            await until(replaced, "there is another worker")
            for number in range(MANY):
                assert value(await call_once(running.url, "Lab.Echo", {"n": number})) == {"n": number}


async def test_who_asks_every_process_to_stop_cuts_no_call_off(redis_url: str) -> None:
    """Ours: systemd does by default, and then a worker is asked twice."""
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    async with (
        tool_server({"Lab.Slow": slow}) as lab,
        team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running,
    ):
        asking = [asyncio.create_task(call_once(running.url, "Lab.Slow", {"n": number})) for number in range(MANY)]
        await until(lambda: len(lab.calls("Lab.Slow")) == MANY, "all calls run")
        workers = await pids(running)
        for pid in workers:
            os.kill(pid, signal.SIGTERM)
        await until(lambda: len(running.logged("draining")) == WORKERS, "the workers drain")
        running.process.send_signal(signal.SIGTERM)
        await until(lambda: len(running.logged("draining")) == WORKERS + 1, "the gateway does")
        drains = asyncio.get_running_loop().time()

        async def heard_since() -> bool:
            since_s = asyncio.get_running_loop().time() - drains
            return all(worker["report_age_s"] + 0.1 < since_s for worker in (await details(running))["workers"])

        await until(heard_since, "the workers have been asked by both")
        released.set()
        assert [value(await answer) for answer in asking] == [{"n": number} for number in range(MANY)]
        async with asyncio.timeout(STOP_S):
            assert await running.process.wait() == 0
