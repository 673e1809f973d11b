"""Streams of MCP servers without an end, of any mixture of kinds: whoever reads them, the event loop goes on."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.core.errors import GatewayError
from gateway.core.sse import EventParser
from tests.fuzz.test_loop_pauses import LONGEST_PAUSE_S, SEEDS, Pauses
from tests.streams import kinds_of_floods
from tests.unit.backends.mcp_facing import EVENTS, INVOCATION, Script, Talk, backend_at, chunk, serving

FLOODS = list(kinds_of_floods().values())
LIMIT = 300
CALLS = 4
BLOCK = 100_000  # bytes of one kind before the next, at most


@given(st.lists(st.sampled_from(FLOODS) | st.binary(min_size=1, max_size=8), max_size=40), st.data())
def test_any_mixture_means_the_same_whole_and_in_pieces(pieces: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    whole, cut = EventParser(LIMIT), EventParser(LIMIT)
    events = whole.feed(stream)
    assert [
        each
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for each in cut.feed(stream[start:end])
    ] == events
    assert (cut.skipped, cut.last_id, cut.held_bytes) == (whole.skipped, whole.last_id, whole.held_bytes)
    assert cut.held_bytes <= LIMIT


def blocks(seed: int) -> Iterator[bytes]:
    """A stream without an end: some of one kind, some of another."""
    chance = random.Random(seed)
    kinds = chance.sample(FLOODS, chance.randrange(1, 4))
    while True:
        piece = chance.choice(kinds)
        yield piece * (chance.randrange(1, BLOCK) // len(piece) + 1)


def flooding(seed: int) -> Script:
    async def flood(talk: Talk) -> None:
        await talk.send(EVENTS)
        for block in blocks(seed):
            await talk.send(chunk(block))

    return flood


@pytest.mark.anyio
@pytest.mark.parametrize("seeds", SEEDS)
async def test_the_loop_never_pauses_for_long_whatever_a_server_streams(seeds: range) -> None:
    for seed in seeds:
        flood = flooding(seed)
        with (
            start_blocking_portal() as elsewhere,  # a thread with a loop of its own
            elsewhere.wrap_async_context_manager(serving("legacy", flood)) as double,
        ):
            await hold(seed, double.url)


async def hold(seed: int, url: str) -> None:
    short = replace(INVOCATION, timeout_s=1.0)
    async with aclosing(backend_at(url, max_response="1MiB")) as backend:
        await backend.list_tools()
        gc.collect()
        gc.freeze()
        pauses = Pauses()
        try:
            ended = await asyncio.gather(*(backend.call(short) for _ in range(CALLS)), return_exceptions=True)
            longest_s = pauses.take()
        finally:
            pauses.stop()
            gc.unfreeze()
    assert longest_s < LONGEST_PAUSE_S, f"seed {seed}: {longest_s * 1e3:.0f} ms"
    for each in ended:
        assert isinstance(each, GatewayError) or (not isinstance(each, BaseException) and each.failure is not None)
