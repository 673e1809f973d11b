"""Credentials that come once and never again, verified one by one: what a gateway keeps of them.

Memory is compared after some thousands with after some thousands more, by when everything that has a limit has met it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

import pytest

from gateway.auth.authentication import CACHE_ENTRIES
from tests.support.authenticators import handmade
from tests.support.calling import connect
from tests.support.processes import GatewayProcess, gateway, settings

pytestmark = pytest.mark.anyio

SECRET = b"a secret of more than thirty-two bytes"
OTHER = b"another secret of more than thirty-two bytes"
FLOOD = 10_000
MORE = 4_000
CONNECTIONS = 4
AT_ONCE = 16  # pipelined requests, as many as are read ahead; one by one the test costs more than the gateway
MIB = 1024 * 1024
# Every bad token is to be looked at, not refused unseen as by the limit that is built in.
PATIENT = {"name": "patient", "key": "ip", "rate": "1000000/s", "operations": ["failed_verification"]}


def credential(subject: str, secret: bytes = SECRET) -> bytes:
    """The value of an Authorization header."""
    claims = {"sub": subject, "exp": int(time.time()) + 600}
    return handmade({"alg": "HS256", "typ": "JWT"}, claims, key=secret).headers[b"authorization"]


@pytest.fixture
async def running(anyio_backend: object) -> AsyncIterator[GatewayProcess]:
    config = settings(
        {"lab": {"protocol": "otc", "url": "http://127.0.0.1:9"}}, auth={"jwt": [{"secret": SECRET.decode()}]}
    )
    quiet = {"rate_limits": [PATIENT], "logging": {"level": "info"}}
    async with gateway(config | quiet) as running:
        yield running


async def statuses(url: str, credentials: Iterable[bytes]) -> Counter[int]:
    """What lists asked for with these credentials are answered, over some connections at once."""
    found: Counter[int] = Counter()
    waiting = iter(credentials)
    await asyncio.gather(*(_ask(url, waiting, found) for _ in range(CONNECTIONS)))
    return found


async def _ask(url: str, waiting: Iterator[bytes], found: Counter[int]) -> None:
    reader, writer = await connect(url)
    try:
        while some := list(islice(waiting, AT_ONCE)):
            head = b"GET /oxp/tools HTTP/1.1\r\nHost: a\r\nAuthorization: %b\r\n\r\n"
            writer.write(b"".join(head % value for value in some))
            for _ in some:
                found[await _answered(reader)] += 1
    finally:
        writer.close()


async def _answered(reader: asyncio.StreamReader) -> int:
    """Reads an answer; its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    return int(head.split(b" ", 2)[1])


async def test_of_bad_tokens_that_were_looked_at_nothing_is_kept(running: GatewayProcess) -> None:
    bad = (credential(f"mallory-{number}", OTHER) for number in range(FLOOD))
    assert await statuses(running.url, islice(bad, FLOOD // 5)) == {401: FLOOD // 5}
    before = running.peak_memory_bytes()
    assert await statuses(running.url, bad) == {401: FLOOD - FLOOD // 5}
    assert running.peak_memory_bytes() - before < MIB  # 130 bytes of each would be as much


async def test_of_good_ones_no_more_are_known_than_there_is_room_for(running: GatewayProcess) -> None:
    """Their names are long, so that what is kept of one more could be seen."""
    good = (credential(f"{number}-{'x' * 240}") for number in range(CACHE_ENTRIES + MORE))
    assert await statuses(running.url, islice(good, CACHE_ENTRIES)) == {200: CACHE_ENTRIES}
    before = running.peak_memory_bytes()
    assert await statuses(running.url, good) == {200: MORE}
    assert running.peak_memory_bytes() - before < 2 * MIB  # to be known they take 3.6, to be forgotten 1
