"""SIGHUP while calls come in: the new configuration is there at once, and nothing that had begun notices."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.support.authority import Authority
from tests.support.calling import call, caller, value
from tests.support.changing import REFUSED, change, copy, write
from tests.support.processes import Settings, gateway, settings, until
from tests.support.toolserver import Exchange, echo, tool_server
from tests.support.yard import WORK, yard

pytestmark = pytest.mark.anyio

RELOADS = 4
CALLERS = 8


async def details(url: str) -> dict[str, Any]:
    """The detailed health."""
    async with plainhttp.async_client() as http:
        document: dict[str, Any] = (await http.get(f"{url}/health")).json()
    return document


async def test_a_call_under_way_ends_by_the_old_configuration_and_the_next_goes_by_the_new_one() -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    async with tool_server({"Lab.Slow": slow, "Lab.Echo": echo}) as lab, tool_server({"New.Echo": echo}) as new:
        config = settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with gateway(config) as running, caller(running.url) as http:
            slowly = asyncio.create_task(call(http, "Lab.Slow", {"n": 1}))
            await until(lambda: bool(lab.calls("Lab.Slow")), "the call runs")
            await change(running, settings({"new": {"protocol": "otc", "url": new.url}}))
            assert (await call(http, "Lab.Echo")).status_code == 400
            assert value(await call(http, "New.Echo", {"n": 2})) == {"n": 2}
            assert lab.connections == 1
            released.set()
            assert value(await slowly) == {"n": 1}
            await until(lambda: lab.connections == 0, "the backend that is gone is closed")
            assert (await details(running.admin_url))["backends"].keys() == {"new"}


async def test_under_load_no_call_is_lost_and_none_runs_twice_and_backends_that_stay_keep_their_connections() -> None:
    async with tool_server({"Lab.Echo": echo}) as lab, tool_server({"Old.Echo": echo}) as other:
        lasting = {"lab": {"protocol": "otc", "url": lab.url}}
        changing = lasting | {"other": {"protocol": "otc", "url": other.url}}
        async with gateway(settings(changing)) as running, caller(running.url) as http:
            answered: list[int] = []
            over = asyncio.Event()

            async def keep_calling(first: int) -> None:
                number = first
                while not over.is_set():
                    assert value(await call(http, "Lab.Echo", {"n": number})) == {"n": number}
                    answered.append(number)
                    number += CALLERS

            callers = [asyncio.create_task(keep_calling(first)) for first in range(CALLERS)]
            await until(lambda: len(answered) > CALLERS, "load")
            opened = lab.opened
            for number in range(RELOADS):
                await change(running, settings(lasting if number % 2 == 0 else changing))
            over.set()
            await asyncio.gather(*callers)
            assert not running.logged("a request failed inside the gateway")
        # Callers who met for the first time may have needed one more; a new pool would have opened as many again.
        assert lab.opened <= CALLERS + 1, "the pool of a backend that stays was not kept"
        assert lab.opened - opened < CALLERS // 2
        ran = [request.call["input"]["n"] for request in lab.calls("Lab.Echo")]
        assert sorted(ran) == sorted(answered)


async def test_a_broken_file_changes_nothing_names_every_problem_and_is_counted() -> None:
    async with tool_server({"Lab.Echo": echo}) as lab:
        config = settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with gateway(config) as running, caller(running.url) as http:
            await change(running, "auth: none\nbackend: {}\nroutes: [{tools: 5}]\n", expects=REFUSED)
            problems = [line["problem"] for line in running.logged("the configuration has a problem")]
            assert any("backend: is not a known key; did you mean 'backends'?" in problem for problem in problems)
            assert len(problems) >= 3
            async with plainhttp.async_client() as operator:
                text = (await operator.get(f"{running.admin_url}/metrics")).text
            assert "toolgate_config_last_reload_successful 0.0" in text
            assert value(await call(http, "Lab.Echo", {"n": 1})) == {"n": 1}
            await change(running, config)
            assert (await details(running.admin_url))["reloads"] == {"ok": 1, "failed": 1}
            async with plainhttp.async_client() as operator:
                text = (await operator.get(f"{running.admin_url}/metrics")).text
            assert 'toolgate_config_reloads_total{outcome="failed"} 1.0' in text
            assert 'toolgate_config_reloads_total{outcome="ok"} 1.0' in text
            assert "toolgate_config_last_reload_successful 1.0" in text


async def test_a_call_of_a_backend_that_is_gone_still_gets_its_outcome() -> None:
    async with yard() as tools:
        config = settings({"yard": {"protocol": "callback", "url": tools.url}})
        async with gateway(config) as running, caller(running.url) as http:
            ask = partial(call, http, WORK, {"number": 7}, call_id="seven")
            waiting = asyncio.create_task(ask())
            await until(lambda: 7 in tools.taken, "the call is taken")
            await change(running, settings({}))
            assert (await call(http, WORK, {"number": 8}, call_id="eight")).status_code == 400
            closed = "a backend that was taken out of the configuration is closed"
            assert not running.logged(closed)
            assert await tools.call_back([7]) == [200]
            assert value(await waiting) == {"number": 7}
            await until(lambda: bool(running.logged(closed)), closed)
            assert await tools.call_back([7]) == [200]  # as whatever comes late
            assert tools.ran_once


async def test_a_renewed_certificate_is_shown_to_the_next_caller_and_a_broken_one_is_not_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first, second = authority.serving(), authority.serving()
    config = settings({}, server={"port": 0, "admin": {"port": 0}, "tls": {"cert": first.cert, "key": first.key}})
    async with gateway(config, ready=False) as running:

        async def shown() -> bytes:
            url = httpx.URL(running.url)
            _, writer = await asyncio.open_connection(url.host, url.port, ssl=authority.trusting())
            certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            await writer.wait_closed()
            return certificate

        before = await shown()
        for old, new in ((first.cert, second.cert), (first.key, second.key)):
            copy(new, old)
        await change(running, config)
        renewed = await shown()
        assert renewed != before
        write(Path(first.cert), "no certificate")
        await change(running, config, expects=REFUSED)
        assert await shown() == renewed


async def test_a_certificate_that_breaks_while_a_configuration_is_put_to_use_does_not_leave_it_half_applied(
    tmp_path: Path,
) -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def slowly(exchange: Exchange) -> None:
        asked.set()
        await released.wait()
        await exchange.reply({"$schema": "otc://1.0", "tools": []})

    files = Authority(tmp_path).serving()
    config = settings({}, server={"port": 0, "admin": {"port": 0}, "tls": {"cert": files.cert, "key": files.key}})
    async with gateway(config, ready=False) as running, tool_server({}, listing=slowly) as slow:
        more = {"backends": {"slow": {"protocol": "otc", "url": slow.url}}}
        reload = asyncio.create_task(change(running, config | more))
        await asked.wait()
        write(Path(files.cert), "no certificate")
        released.set()
        await reload
        assert (await details(running.admin_url))["reloads"] == {"ok": 1, "failed": 0}


async def test_https_goes_on_until_the_next_start_when_it_is_taken_away_with_its_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serving()
    server: Settings = {"port": 0, "admin": {"port": 0}}
    config = settings({}, server=server | {"tls": {"cert": files.cert, "key": files.key}})
    async with gateway(config, ready=False) as running:
        for name in (files.cert, files.key):
            os.unlink(name)
        await change(running, settings({}, server=server | {"max_body": "1KiB"}))
        (line,) = running.logged("a change takes effect only at the next start")
        assert line["keys"] == ["server.tls"]
        async with httpx.AsyncClient(trust_env=False, verify=authority.trusting()) as http:
            url = httpx.URL(running.url).copy_with(scheme="https", path="/otc/tools/call")
            too_large = await http.post(url, json={"padding": " " * 2000})
        assert too_large.status_code == 413
        assert (await details(running.admin_url))["reloads"] == {"ok": 1, "failed": 0}
