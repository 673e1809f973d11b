"""Runs simulations: with one seed it tells that one in full, with two it runs all from the first to the second."""

from __future__ import annotations

import sys
import time

from tests.simulation.checks import of_data, violations
from tests.simulation.faults import Faults
from tests.simulation.loop import StuckError
from tests.simulation.world import world

ENOUGH = 10  # schedules that fail, before it stops


def simulate(seed: int, *, tells: bool = False) -> tuple[list[str], list[str]]:
    """What does not hold of a simulation, and its story: the faults that were planned, and what happened."""
    with world(seed, tells=tells) as it:
        faults = Faults(it)
        try:
            it.run(lambda world: not of_data(world))
            found = violations(it)
        except StuckError as exc:
            found = [str(exc)]
        return found, [*(f"planned: {each}" for each in faults.told), *it.story]


def main() -> None:
    seeds = [int(word) for word in sys.argv[1:]]
    if len(seeds) == 1:
        found, story = simulate(seeds[0], tells=True)
        print("\n".join([*story, *(f"VIOLATION {each}" for each in found)]))
        return
    began_s, bad = time.process_time(), 0
    for seed in range(*seeds):
        found, _ = simulate(seed)
        if found:
            bad += 1
            print(f"seed {seed}: {'; '.join(found[:3])}"[:300], flush=True)
            if bad == ENOUGH:
                break
    took_s = time.process_time() - began_s
    print(f"{bad} of {len(range(*seeds))} schedules violate something; {took_s:.1f} s")


if __name__ == "__main__":
    main()
