from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from gateway.demo.fleet import SERVERS, start_fleet
from tests import plainhttp
from tests.unit.demo.conftest import DEADLINE_S, running, words_of_help

GUARDED = {"otc": "/tools", "oxp": "/tools", "rap": "/.well-known/rap-toolset", "rcrt": "/secrets"}


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
            assert (await client.get(guarded, headers={"Authorization": "Bearer t0k"})).status_code == 200
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


@pytest.mark.parametrize("module", ["otc_server", "oxp_server", "rap_server", "rcrt_server"])
def test_a_server_exits_with_0_at_ctrl_c(module: str) -> None:
    """As it does at SIGTERM, with which every server of these tests is ended."""
    with running(module) as (_, process):
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0


def test_a_sleeping_call_is_answered_when_the_server_stops() -> None:
    with running("otc_server") as (url, process), plainhttp.client(base_url=url, timeout=DEADLINE_S) as client:
        answers: list[httpx.Response] = []
        request = {"request": {"tool_id": "Clock.Sleep", "input": {"seconds": 60}}}
        sleeper = threading.Thread(target=lambda: answers.append(client.post("/call", json=request)))
        sleeper.start()
        give_up = time.monotonic() + DEADLINE_S
        while client.get("/executions").json()["Clock.Sleep"] == 0:
            assert time.monotonic() < give_up, "the clock was never asked"
        process.terminate()
        sleeper.join(DEADLINE_S)
        assert answers[0].json()["result"]["error"]["can_retry"] is True


def test_a_port_in_use_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "gateway.demo.otc_server", "--port", str(taken.getsockname()[1])]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert finished.returncode == 1
    assert finished.stderr.startswith("cannot listen on 127.0.0.1 port ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("otc_server", set()),
        ("oxp_server", set()),
        ("rap_server", {"--callback-origin"}),
        ("rcrt_server", {"--edition", "--standard", "--as-shipped", "--auth-disabled", "--ping-s"}),
    ],
)
def test_each_server_tells_all_its_options(module: str, options: set[str]) -> None:
    assert words_of_help(module) >= {"--host", "--port", "--token", "--until-stdin-closes", *options}


def test_an_unknown_option_is_told() -> None:
    command = [sys.executable, "-m", "gateway.demo.rap_server", "--callback-origins", "x"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (finished.returncode, finished.stderr.splitlines()[-1]) == (
        2,
        "rap_server.py: error: unrecognized arguments: --callback-origins x",
    )


def test_a_supervised_server_says_its_port_as_the_reference_ones_do() -> None:
    command = [sys.executable, "-m", "gateway.demo.rap_server", "--port", "0", "--until-stdin-closes"]
    environment = {**os.environ, "RAP_EMBEDDED": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with plainhttp.client() as client:
            assert client.get(f"http://127.0.0.1:{port}/health").status_code == 200
        process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_told_as_a_wrong_argument(port: str) -> None:
    command = [sys.executable, "-m", "gateway.demo.otc_server", f"--port={port}"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert finished.returncode == 2
    assert "--port" in finished.stderr
