"""The protocol between gateways, Redis and tool servers, under schedules of faults that seeds decide.

A seed that fails prints its schedule; `python -m tests.simulation SEED` runs it again alone.
"""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import simulate

AT_ONCE = 10  # schedules in one test
SOON = range(0, 40, AT_ONCE)
LONG = range(40, 3000, AT_ONCE)
SHOWN = 150  # lines of the story of a schedule, from its end


@pytest.mark.parametrize("first", [*SOON, *(pytest.param(first, marks=pytest.mark.soak) for first in LONG)])
def test_no_schedule_loses_a_call_runs_one_twice_or_leaves_anybody_waiting(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        found, _ = simulate(seed)
        if found:
            _, story = simulate(seed, tells=True)
            pytest.fail("\n".join([f"seed {seed}", *story[-SHOWN:], *found]), pytrace=False)
