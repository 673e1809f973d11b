"""The simulation finds bugs: each of these, planted, shows within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import simulate
from tests.simulation.planted import BUGS

WITHIN = 150
SEEDS = {  # the first that finds each, tried before the others: any change of the simulation shifts them
    "calls are not put back": 8,
    "outcomes are not reported again": 8,
    "a late begin takes the call that its replica runs": 10,
    "calls that were sent are taken over by who repeats them": 9,
    "calls that were sent are given back": 6,
    "a call ends twice": 3,
    "a call is put back that is there": 1,
    "what is forgotten still counts": 1,
    "what has ended is still held": 0,
    "calls in doubt are never forgotten": 136,
}


@pytest.mark.parametrize(("name", "seed"), SEEDS.items(), ids=list(SEEDS))
def test_a_planted_bug_is_found(name: str, seed: int) -> None:
    with BUGS[name]():
        assert any(simulate(each)[0] for each in (seed, *range(WITHIN)))
