from __future__ import annotations

import socket
import subprocess
import sys
from functools import partial

import httpx
import pytest

from gateway.demo.fleet import SERVERS, start_fleet
from tests import plainhttp
from tests.support.terminal import DEADLINE_S

GUARDED = {
    "otc": ("GET", "/tools"),
    "oxp": ("GET", "/tools"),
    "rap": ("GET", "/.well-known/rap-toolset"),
    "rcrt": ("GET", "/breadcrumbs/x/full"),
    "mcp": ("POST", "/mcp"),
    "openapi": ("GET", "/v1/stations"),
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def listens(url: str) -> bool:
    parsed = httpx.URL(url)
    try:
        socket.create_connection((parsed.host, parsed.port or 0), timeout=DEADLINE_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.anyio
async def test_the_servers_run_and_ask_for_the_token_while_the_context_is_open() -> None:
    async with start_fleet(token="t0k") as urls, plainhttp.async_client(timeout=DEADLINE_S) as client:
        assert set(urls) == set(SERVERS)
        for name, url in urls.items():
            method, path = GUARDED[name]
            guarded = partial(client.request, method, f"{url}{path}", json=PING)
            assert (await client.get(f"{url}/health")).status_code == 200
            assert (await guarded()).status_code == 401
            assert (await guarded(headers={"Authorization": "Bearer t0k"})).status_code in (200, 404)
    assert not any(map(listens, urls.values()))


def test_a_port_in_use_is_an_error_of_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "gateway.demo.otc_server", "--port", str(taken.getsockname()[1])]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert finished.returncode == 1
    assert finished.stderr.startswith("cannot listen on 127.0.0.1 port ")
    assert finished.stderr.count("\n") == 1
