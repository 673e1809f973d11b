"""Replicas behind nginx and HAProxy, as docs/proxies.md sets them up, are replaced under load: no call is lost."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests import plainhttp
from tests.deploy.tools import free_ports, output, program
from tests.support.calling import Load, call_once
from tests.support.markdown import DOCS, blocks
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

PAGE = (DOCS / "proxies.md").read_text("utf-8")
CALLERS = 6
DELAY = "3s"  # as on the page
SOME_CALLS = 100


def config_of(mark: str) -> str:
    """A file of the page."""
    (block,) = blocks(PAGE, mark=mark)
    return block.text


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Load]:
    """Callers that call one after the other. None keeps a connection: reloads close idle ones."""
    over = asyncio.Event()
    load = Load(partial(call_once, url), itertools.takewhile(lambda _: not over.is_set(), itertools.count()))
    callers = [asyncio.create_task(load.keep_calling()) for _ in range(CALLERS)]
    try:
        yield load
    finally:
        over.set()
        await asyncio.gather(*callers)


async def some_more(load: Load) -> None:
    enough = len(load.answered) + SOME_CALLS
    await until(lambda: len(load.answered) >= enough, "calls are answered")


Replace = Callable[[int], Awaitable[None]]


class Replicas:
    """Two gateways on ports that stay the same."""

    def __init__(self, tool_url: str, ports: list[int]) -> None:
        self._tool_url = tool_url
        self.ports = ports
        self._running: dict[int, tuple[AsyncExitStack, GatewayProcess]] = {}

    async def start(self, port: int) -> None:
        server = {"port": port, "admin": {"port": 0}, "drain_delay": DELAY, "trusted_proxies": ["127.0.0.1/32"]}
        stack = AsyncExitStack()
        config = settings({"lab": {"protocol": "otc", "url": self._tool_url}}, server=server)
        self._running[port] = stack, await stack.enter_async_context(gateway(config))

    async def stop(self, port: int) -> None:
        stack, running = self._running.pop(port)
        running.process.send_signal(signal.SIGTERM)
        assert await running.process.wait() == 0
        await stack.aclose()

    async def until_called(self, port: int) -> None:
        """Waits until the proxy has sent calls to a replica that is new."""
        _, running = self._running[port]

        async def is_called() -> bool:
            async with plainhttp.async_client() as http:
                shown = (await http.get(f"{running.admin_url}/metrics")).text
            return 'toolgate_requests_total{dialect="otc",operation="call",status="200"}' in shown

        await until(is_called, "the new replica is called")

    async def aclose(self) -> None:
        for port in list(self._running):
            await self.stop(port)


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def replaced_under_load(front: int, replicas: Replicas, replace: Replace) -> Load:
    async with plainhttp.async_client() as http:

        async def is_served() -> bool:
            try:
                return (await http.get(f"http://127.0.0.1:{front}/health")).status_code == httpx.codes.OK
            except httpx.HTTPError:
                return False

        await until(is_served, "the proxy serves")
    async with calling(f"http://127.0.0.1:{front}") as load:
        for port in replicas.ports:
            await some_more(load)
            await replace(port)
        await some_more(load)
    return load


@asynccontextmanager
async def two_replicas(ports: list[int]) -> AsyncIterator[tuple[Replicas, Counter[int]]]:
    """Runs them; what is counted are the runs of each call."""
    async with tool_server({"Lab.Echo": echo}) as lab:
        replicas, runs = Replicas(lab.url, ports), Counter[int]()
        try:
            for port in ports:
                await replicas.start(port)
            yield replicas, runs
        finally:
            await replicas.aclose()
            runs.update(asked.call["input"]["n"] for asked in lab.calls("Lab.Echo"))


def assert_nothing_lost(load: Load, runs: Counter[int]) -> None:
    assert load.unanswered == []
    assert len(load.answered) == len(runs)
    assert set(runs.values()) == {1}


async def test_haproxy_notices_by_itself(tmp_path: Path) -> None:
    haproxy = program("haproxy", "haproxy")
    front, *ports = free_ports(3)
    text = config_of("haproxy.cfg").replace(":8080", f":{front}")
    path = tmp_path / "haproxy.cfg"
    path.write_text(text.replace(":8081", f":{ports[0]}").replace(":8082", f":{ports[1]}"))
    output(haproxy, "-c", "-f", str(path))
    async with two_replicas(ports) as (replicas, runs):

        async def replace(port: int) -> None:
            await replicas.stop(port)
            await replicas.start(port)
            await replicas.until_called(port)

        with running(haproxy, "-db", "-f", str(path)):
            load = await replaced_under_load(front, replicas, replace)
    assert_nothing_lost(load, runs)


async def test_nginx_is_reloaded(tmp_path: Path) -> None:
    nginx = program("nginx", "nginx")
    front, *ports = free_ports(3)
    servers = tmp_path / "toolgate-servers.conf"
    listed = config_of("toolgate-servers.conf").replace(":8081", f":{ports[0]}").replace(":8082", f":{ports[1]}")
    servers.write_text(listed)
    places = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    text = config_of("nginx.conf").replace(":8080", f":{front}")
    text = text.replace("http {", f"http {{ access_log off; client_body_temp_path {tmp_path}/body; {places}", 1)
    path = tmp_path / "nginx.conf"
    path.write_text(f"pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n{text}")
    output(nginx, "-t", "-c", str(path))
    async with two_replicas(ports) as (replicas, runs):

        async def list_only(*these: int) -> None:
            servers.write_text("".join(f"server 127.0.0.1:{port};\n" for port in these))
            await asyncio.to_thread(output, nginx, "-s", "reload", "-c", str(path))

        async def replace(port: int) -> None:
            await list_only(*(other for other in ports if other != port))
            await replicas.stop(port)
            await replicas.start(port)
            await list_only(*ports)
            await replicas.until_called(port)

        with running(nginx, "-g", "daemon off;", "-c", str(path)):
            load = await replaced_under_load(front, replicas, replace)
    assert_nothing_lost(load, runs)


def test_the_page_gives_a_delay_that_is_long_enough() -> None:
    (delay,) = re.findall(r"drain_delay: (\d+)s", PAGE)
    every, fall = re.findall(r"inter (\d+)ms fall (\d+)", PAGE)[0]
    assert f"{delay}s" == DELAY
    assert int(delay) * 1000 > 2 * int(every) * int(fall)
