"""Thousands of callers that nobody knows, and thousands that somebody does: others are served, memory is not eaten.

The flood comes from an address of its own, which Linux has on loopback as many as one likes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from urllib.parse import urlsplit

import jwt
import pytest

from tests.support.calling import call, caller, encoded_call, value
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

SECRET = "what-callers-sign-their-tokens-with"
ELSEWHERE = "127.0.0.2"
MANY = 5000
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


def memory_bytes(running: GatewayProcess) -> int:
    """What it holds now (proc_pid_status(5), VmRSS)."""
    with open(f"/proc/{running.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


async def statuses(url: str, tokens: Iterable[str], tool: str) -> Counter[int]:
    """How calls with these tokens are answered, over one connection from elsewhere."""
    place, found, rest = urlsplit(url), Counter[int](), iter(tokens)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, local_addr=(ELSEWHERE, 0))
    try:
        while batch := list(islice(rest, AT_ONCE)):
            writer.write(b"".join(encoded_call(tool, {}, f"Authorization: Bearer {one}") for one in batch))
            for _ in batch:
                head = await reader.readuntil(b"\r\n\r\n")
                found[int(head.split(b" ", 2)[1])] += 1
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
    finally:
        writer.close()
    return found


async def test_a_flood_of_bad_tokens_costs_neither_others_their_calls_nor_us_memory(running: GatewayProcess) -> None:
    head, _, signature = token("mallory", "a secret that the gateway does not have").rpartition(".")
    bad = [f"{head}.{number:06d}{signature[6:]}" for number in range(MANY)]
    known = {"authorization": f"Bearer {token('alice')}"}
    async with caller(running.url, headers=known) as http:
        assert value(await call(http, TOOL)) == {}
        before, began = memory_bytes(running), time.monotonic()
        flood = asyncio.create_task(statuses(running.url, bad, TOOL))
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
    assert memory_bytes(running) - before < GROWTH
    assert not any(one in running.log_text() for one in bad[:3])


async def test_thousands_of_callers_are_remembered_in_little_memory(running: GatewayProcess) -> None:
    """Each has a token and a limit of its own; no tool is called, so that it is them alone who take room."""
    tokens = [token(f"caller-{number:06d}") for number in range(MANY)]
    await statuses(running.url, tokens[:AT_ONCE], "No.Tool")
    before = memory_bytes(running)
    assert await statuses(running.url, tokens, "No.Tool") == {400: MANY}
    assert memory_bytes(running) - before < GROWTH
