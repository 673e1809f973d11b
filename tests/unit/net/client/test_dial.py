"""Origins: what a URL says about where to connect. Dialling: a name may have many addresses, some of them dead."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from gateway.net.client import Origin
from gateway.net.client.dial import Address, Dialler, close_loser, first_connected
from tests.unit.net.client.scripted import DEADLINE_S, echo_target, serving
from tests.unit.net.client.test_pool import unanswering

pytestmark = pytest.mark.anyio

FOUR, SIX = socket.AF_INET, socket.AF_INET6


GOOD = [
    ("http://tools.example", Origin("http", "tools.example", 80), b"tools.example"),
    ("https://tools.example/base?x=1", Origin("https", "tools.example", 443), b"tools.example"),
    ("HTTP://Tools.Example:8080/", Origin("http", "tools.example", 8080), b"tools.example:8080"),
    ("https://tools.example:80", Origin("https", "tools.example", 80), b"tools.example:80"),
    ("http://127.0.0.1:9101", Origin("http", "127.0.0.1", 9101), b"127.0.0.1:9101"),
    ("http://[::1]:9101/tools", Origin("http", "::1", 9101), b"[::1]:9101"),
    ("https://[2001:DB8::1]", Origin("https", "2001:db8::1", 443), b"[2001:db8::1]"),
]


@pytest.mark.parametrize(("url", "origin", "authority"), GOOD)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin, authority: bytes) -> None:
    assert Origin.parse(url) == origin
    assert origin.authority == authority


def test_an_origin_reads_as_a_url() -> None:
    assert str(Origin("https", "::1", 8443)) == "https://[::1]:8443"
    assert Origin.parse(str(Origin("https", "::1", 8443))) == Origin("https", "::1", 8443)


BAD = [
    "tools.example",
    "ftp://tools.example",
    "//tools.example",
    "http://",
    "http:///path",
    "http://:80",
    "http://user@tools.example",
    "http://user:word@tools.example",
    "http://tools.example:0",
    "http://tools.example:65536",
    "http://tools.example:port",
    "http://[::1",
    "http://tools.example\r\nHost: other",
    "http://tools .example",
    " http://tools.example",
    "http://b\u00fccher.example",
]


@pytest.mark.parametrize("url", BAD)
def test_a_url_that_names_no_clear_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Origin.parse(url)


def refusing(stack: contextlib.ExitStack) -> Address:
    sock = stack.enter_context(socket.socket())
    sock.bind(("127.0.0.1", 0))
    return FOUR, sock.getsockname()


async def test_addresses_that_refuse_are_passed_over_at_once() -> None:
    with contextlib.ExitStack() as stack:
        async with serving(echo_target) as server, asyncio.timeout(DEADLINE_S):  # 40 without an answer cost 10 s
            good: Address = (FOUR, ("127.0.0.1", server.origin.port))
            with await first_connected([*(refusing(stack) for _ in range(40)), good]) as sock:
                assert sock.getpeername()[1] == server.origin.port


async def test_an_address_that_does_not_answer_costs_a_quarter_of_a_second() -> None:
    async with serving(echo_target) as server:
        good: Address = (FOUR, ("127.0.0.1", server.origin.port))
        with unanswering() as port:
            started = time.monotonic()
            with await first_connected([(FOUR, ("127.0.0.1", port)), good]) as sock:
                assert sock.getpeername()[1] == server.origin.port
            assert time.monotonic() - started > 0.2


async def test_when_all_addresses_fail_the_last_reason_is_raised() -> None:
    with contextlib.ExitStack() as stack, pytest.raises(ConnectionRefusedError):
        await first_connected([refusing(stack), refusing(stack)])
    with pytest.raises(OSError, match="no address"):
        await first_connected([])


async def test_an_attempt_that_succeeds_too_late_is_closed() -> None:
    async def connected() -> socket.socket:
        return socket.socket()

    async def refused() -> socket.socket:
        raise ConnectionRefusedError

    late, failed = asyncio.create_task(connected()), asyncio.create_task(refused())
    await asyncio.wait([late, failed])
    close_loser(late)
    close_loser(failed)
    assert late.result().fileno() == -1


async def test_lookups_of_the_same_moment_share_one_answer() -> None:
    dialler = Dialler(Origin("http", "localhost", 80), None, 2.0)
    first, second = await asyncio.gather(dialler._addresses(), dialler._addresses())
    assert first is second
    assert await dialler._addresses() is not first  # names may move
