"""Rounds of drawn plans: whatever servers do, each call ends in the reply that was sent or in an error that is true."""

from __future__ import annotations

import pytest

from tests.fuzz.transport.loops import run
from tests.fuzz.transport.rounds import Contexts, play

SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    "seeds", [pytest.param(range(12), id="some"), pytest.param(range(12, 2400), id="many", marks=SOAK)]
)
def test_each_call_gets_its_reply_or_the_truth(seeds: range, contexts: Contexts) -> None:
    async def play_all() -> int:
        return sum([await play(seed, contexts) for seed in seeds])

    carried_out = run(play_all())
    assert carried_out > 8 * len(seeds)  # of 12 in a round; the rest never got a connection
