"""Crowds of callers that take their time: others are served meanwhile, and their time is up."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest

from gateway.net.server.run import raise_open_files
from tests.support.authority import Authority
from tests.support.calling import call, caller, value
from tests.support.processes import DEADLINE_S, gateway, settings, until
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

# Of callers over TLS: how many send their requests slowly, and how many do not get that far.
CROWDS = [(50, 150), pytest.param(200, 800, marks=[pytest.mark.soak, pytest.mark.alone])]
FILES = 4000  # open ones, for the largest crowd and the tests
LIMIT = "1500ms"  # for a head and for a body
OTHERS_S = 0.5  # what half of the others' calls stay below on a busy machine; alone all of them take 10 ms
OTHERS_P99_S = 1.4  # who is kept waiting by the slow waits for as long as they are given
PAUSE_S = 0.2  # between two bytes of a slow caller

HEAD = b"POST /otc/tools/call HTTP/1.1\r\nHost: gateway\r\nX-Slow: "
BODY = (
    b"POST /otc/tools/call HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the first bytes of a greeting in TLS


class Crowd:
    """Connections that each say something now and then, until they are hung up on."""

    def __init__(self) -> None:
        self._watch = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self.received = b""  # all that they received

    def join(self, connected: socket.socket, words: bytes) -> None:
        connected.setblocking(False)
        connected.send(words)
        self._sockets[connected.fileno()] = connected
        self._watch.register(connected, select.EPOLLIN | select.EPOLLRDHUP)

    def __len__(self) -> int:
        return len(self._sockets)

    def talk(self) -> None:
        """Everybody says a little more, and who has been hung up on leaves."""
        for number, connected in list(self._sockets.items()):
            try:
                connected.send(b"x")
            except BlockingIOError:
                continue
            except OSError:
                self._leave(number)
        for number, _ in self._watch.poll(0):
            self._listen(number)

    def close(self) -> None:
        for number in list(self._sockets):
            self._leave(number)
        self._watch.close()

    def _listen(self, number: int) -> None:
        try:
            heard = self._sockets[number].recv(4096)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            heard = b""
        self.received += heard
        if not heard:
            self._leave(number)

    def _leave(self, number: int) -> None:
        connected = self._sockets.pop(number)
        self._watch.unregister(number)
        connected.close()


@asynccontextmanager
async def site(**server: Any) -> AsyncIterator[tuple[str, int]]:
    """A gateway that gives slow callers little time, and where it listens."""
    async with tool_server({"Lab.Echo": echo}) as lab:
        limits = {"port": 0, "admin": {"port": 0}, "head_timeout": LIMIT, "body_timeout": LIMIT}
        config = settings({"lab": {"protocol": "otc", "url": lab.url}}, server={**limits, **server})
        async with gateway(config, ready=False) as running:
            where = httpx.URL(running.url)
            yield where.host, where.port or 80


async def outlast(slow: Crowd, http: httpx.AsyncClient) -> list[float]:
    """Calls until the last of the crowd is gone, over a connection of before and new ones; how long each call took."""
    took: list[float] = []
    end, talked = time.monotonic() + DEADLINE_S, 0.0
    while len(slow):
        assert time.monotonic() < end, f"{len(slow)} are still connected"
        http.headers["connection"] = "close" if len(took) % 2 else "keep-alive"
        started = time.perf_counter()
        assert value(await call(http, "Lab.Echo", {"n": len(took)})) == {"n": len(took)}
        took.append(time.perf_counter() - started)
        if time.monotonic() - talked > PAUSE_S:
            await asyncio.to_thread(slow.talk)
            talked = time.monotonic()
    return took


async def assert_served_beside(fill: Callable[[Crowd], None], http: httpx.AsyncClient, refused: int) -> None:
    """Calls beside a crowd are answered in time, and those of the crowd who began a request are refused."""
    if raise_open_files() < FILES:
        pytest.skip("too few files may be open")

    async def answers() -> bool:
        return (await http.get("/health")).status_code == httpx.codes.OK

    await until(answers, "the gateway is ready")
    slow = Crowd()
    try:
        await asyncio.to_thread(fill, slow)
        took = await outlast(slow, http)
    finally:
        slow.close()
    assert slow.received.count(b"HTTP/1.1 408 ") == refused
    assert len(took) >= 5  # some hundreds on an idle machine
    assert median(took) < OTHERS_S
    assert sorted(took)[int(len(took) * 0.99)] < OTHERS_P99_S


@pytest.mark.parametrize(("requests", "handshakes"), CROWDS)
async def test_slow_handshakes_and_slow_requests_do_not_delay_others(
    tmp_path: Path, requests: int, handshakes: int
) -> None:
    authority = Authority(tmp_path)
    files, client = authority.serving(), authority.trusting()
    async with (
        site(tls={"cert": files.cert, "key": files.key}) as address,
        caller(f"https://{address[0]}:{address[1]}", verify=client) as http,
    ):

        def fill(slow: Crowd) -> None:
            for number in range(requests):
                plain = socket.create_connection(address)
                slow.join(client.wrap_socket(plain, server_hostname=address[0]), BODY if number % 2 else HEAD)
            for _ in range(handshakes):
                slow.join(socket.create_connection(address), HELLO)

        await assert_served_beside(fill, http, requests)
