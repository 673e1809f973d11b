from __future__ import annotations

import socket
import subprocess
import sys
import time

import httpx
import pytest

from gateway.demo.fleet import SERVERS, start_fleet
from tests import plainhttp
from tests.support.servers import DEADLINE_S

GUARDED = {"otc": "/tools", "oxp": "/tools", "rap": "/.well-known/rap-toolset", "rcrt": "/breadcrumbs/x/full"}


def listens(url: str) -> bool:
    parsed = httpx.URL(url)
    try:
        socket.create_connection((parsed.host, parsed.port or 0), timeout=DEADLINE_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.anyio
async def test_the_fleet_runs_while_the_context_is_open() -> None:
    async with start_fleet(token="t0k") as urls, plainhttp.async_client(timeout=DEADLINE_S) as client:
        assert set(urls) == set(SERVERS)
        for name, url in urls.items():
            guarded = f"{url}{GUARDED[name]}"
            assert (await client.get(f"{url}/health")).status_code == 200
            assert (await client.get(guarded)).status_code == 401
            assert (await client.get(guarded, headers={"Authorization": "Bearer t0k"})).status_code in (200, 404)
    assert not any(map(listens, urls.values()))


@pytest.mark.anyio
async def test_the_fleet_stops_when_its_user_fails() -> None:
    with pytest.raises(KeyError):
        async with start_fleet() as urls:
            raise KeyError
    assert not any(map(listens, urls.values()))


PARENT = """
import asyncio, sys
from gateway.demo.fleet import start_fleet
async def main():
    async with start_fleet() as urls:
        print(*urls.values(), flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def test_the_fleet_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        urls = parent.stdout.readline().decode().split()
        assert len(urls) == len(SERVERS)
        parent.kill()
    give_up = time.monotonic() + DEADLINE_S
    while any(map(listens, urls)):
        assert time.monotonic() < give_up, "a server outlived its parent"
        time.sleep(0.02)


def test_a_port_in_use_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "gateway.demo.otc_server", "--port", str(taken.getsockname()[1])]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert finished.returncode == 1
    assert finished.stderr.startswith("cannot listen on 127.0.0.1 port ")
    assert finished.stderr.count("\n") == 1
