"""Thousands of callers with bad tokens, and thousands with good ones: others are served, memory stays bounded.

The flood comes from an address of its own, which Linux has on loopback as many as one likes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from urllib.parse import urlsplit

import jwt
import pytest

from tests.support.calling import call, caller, encoded_call, value
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

SECRET = "what-callers-sign-their-tokens-with"
OTHER = "a secret that the gateway does not have"
ELSEWHERE = "127.0.0.2"
MANY = 5000
FLOOD = 10_000
CONNECTIONS = 4
MIB = 1024 * 1024
# Every bad token is to be looked at, not refused unseen as by the limit that is built in.
PATIENT = {"name": "patient", "key": "ip", "rate": "1000000/s", "operations": ["failed_verification"]}
PAUSE_S = 0.02  # between two calls of the one who is served meanwhile
AT_ONCE = 16  # requests on the wire before their answers are read; no server reads further ahead
GROWTH = 12 * 2**20  # what so many remembered tokens, callers and their buckets may take together, three times over
GUESSES, GUESSES_PER_S = 100, 10  # what an address has where nothing is configured
TOOL = "Lab.Echo"


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[GatewayProcess]:
    async with tool_server({TOOL: echo}) as server:
        config = settings(
            {"lab": {"protocol": "otc", "url": server.url}},
            auth={"jwt": [{"secret": SECRET}]},
            rate_limits=[{"name": "per-caller", "key": "caller", "rate": "1/s", "burst": 100000}],
            logging={"level": "info"},
        )
        async with gateway(config) as process:
            yield process


def token(subject: str, secret: str = SECRET) -> str:
    return jwt.encode({"sub": subject, "exp": int(time.time()) + 600}, secret, "HS256")


async def statuses(url: str, heads: Iterable[bytes], connections: int = 1) -> Counter[int]:
    """How requests without a body, or whole ones, are answered; they come from elsewhere than other callers."""
    place, found, rest = urlsplit(url), Counter[int](), iter(heads)

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port, local_addr=(ELSEWHERE, 0))
        try:
            while batch := list(islice(rest, AT_ONCE)):
                writer.write(b"".join(batch))
                for _ in batch:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                    found[int(head.split(b" ", 2)[1])] += 1
        finally:
            writer.close()

    await asyncio.gather(*(ask() for _ in range(connections)))
    return found


def calls(tokens: Iterable[str], tool: str) -> Iterator[bytes]:
    return (encoded_call(tool, {}, f"Authorization: Bearer {one}") for one in tokens)


def lists(tokens: Iterable[str]) -> Iterator[bytes]:
    return (b"GET /oxp/tools HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n\r\n" % one.encode() for one in tokens)


async def test_a_flood_of_bad_tokens_neither_delays_other_calls_nor_takes_memory(running: GatewayProcess) -> None:
    head, _, signature = token("mallory", OTHER).rpartition(".")
    bad = [f"{head}.{number:06d}{signature[6:]}" for number in range(MANY)]
    known = {"authorization": f"Bearer {token('alice')}"}
    async with caller(running.url, headers=known) as http:
        assert value(await call(http, TOOL)) == {}
        before, began = running.memory_bytes(), time.monotonic()
        flood = asyncio.create_task(statuses(running.url, calls(bad, TOOL)))
        served = 0
        while not flood.done():
            assert value(await call(http, TOOL, {"n": served})) == {"n": served}
            served += 1
            await asyncio.sleep(PAUSE_S)
        found, took_s = await flood, time.monotonic() - began
    assert served >= 3
    assert found.total() == MANY
    assert found.keys() == {401, 429}
    assert GUESSES <= found[401] <= GUESSES + GUESSES_PER_S * took_s + 1
    assert running.memory_bytes() - before < GROWTH
    assert not any(one in running.log_text() for one in bad[:3])


async def test_thousands_of_callers_are_remembered_in_little_memory(running: GatewayProcess) -> None:
    """Each has a token and a limit of its own; no tool is called, so that it is them alone who take room."""
    tokens = [token(f"caller-{number:06d}") for number in range(MANY)]
    await statuses(running.url, calls(tokens[:AT_ONCE], "No.Tool"))
    before = running.memory_bytes()
    assert await statuses(running.url, calls(tokens, "No.Tool")) == {400: MANY}
    assert running.memory_bytes() - before < GROWTH


@pytest.fixture
async def patient(anyio_backend: object) -> AsyncIterator[GatewayProcess]:
    lab = {"lab": {"protocol": "otc", "url": "http://127.0.0.1:9"}}
    auth = {"jwt": [{"secret": SECRET}]}
    async with gateway(settings(lab, auth=auth, rate_limits=[PATIENT], logging={"level": "info"})) as process:
        yield process


async def test_of_bad_tokens_that_were_looked_at_nothing_is_kept(patient: GatewayProcess) -> None:
    """Compared are some thousands with some thousands more, by when everything that has a limit has met it."""
    bad = lists(token(f"mallory-{number}", OTHER) for number in range(FLOOD))
    assert await statuses(patient.url, islice(bad, FLOOD // 5), CONNECTIONS) == {401: FLOOD // 5}
    before = patient.peak_memory_bytes()
    assert await statuses(patient.url, bad, CONNECTIONS) == {401: FLOOD - FLOOD // 5}
    assert patient.peak_memory_bytes() - before < MIB  # 130 bytes of each would be as much
