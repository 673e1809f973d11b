"""All that can be measured, by the names that `--only` takes, and the run that measures it."""

from __future__ import annotations

from collections.abc import Collection

from tests.bench.credentials import verification_us
from tests.bench.crowds import crowd_on_one_stream, sustain_callbacks, weigh_waiting_calls
from tests.bench.figures import Outcome
from tests.bench.lineup import PEERS, lineup
from tests.bench.machine import BenchError, pinned
from tests.bench.rounds import Effort, Place, Rounds

FULL = Effort(
    rounds=3,
    slices=5,
    slice_s=0.4,
    warm_up_s=0.12,
    crowd=1000,
    waiting_calls=2000,
    stream_calls=1000,
    stream_times=5,
    many_tools=10_000,
    steady_s=(33.0, 15.0),
    result_ttl_s=30,
    patience_s=90.0,
)
QUICK = Effort(
    rounds=1,
    slices=1,
    slice_s=0.05,
    warm_up_s=0.02,
    crowd=20,
    waiting_calls=50,
    stream_calls=50,
    stream_times=1,
    many_tools=200,
    steady_s=(0.2, 0.2),
    result_ttl_s=1,
    patience_s=0.0,
)

WAITING, WAITING_CALLBACKS, STREAM, STEADY = "waiting", "waiting-callbacks", "stream", "steady"
APART = (WAITING, WAITING_CALLBACKS, STREAM, STEADY)  # what is measured after the rounds
VERIFIED = "forged"  # whose cost is compared with that of a verification


def names() -> list[str]:
    """What `--only` may name."""
    return [*(subject.name for subject in lineup(QUICK.many_tools, QUICK.crowd)), *APART]


def run(place: Place, only: Collection[str]) -> Outcome:
    """Measures everything but peers, or what is named. Raises BenchError."""
    if unknown := sorted(set(only) - set(names())):
        raise BenchError(f"There is no {', '.join(unknown)} to measure, but {', '.join(names())}.")
    effort = place.effort
    asked = set(only) or set(names()) - PEERS
    wanted = [subject for subject in lineup(effort.many_tools, effort.crowd) if subject.name in asked]
    missing = {subject.name: reason for subject in wanted if (reason := subject.missing()) is not None}
    with pinned(place.cores.others):
        return Outcome(
            rounds=Rounds(place, [subject for subject in wanted if subject.name not in missing]).measure(),
            waiting=weigh_waiting_calls(place, "oxp") if WAITING in asked else None,
            waiting_callbacks=weigh_waiting_calls(place, "callback") if WAITING_CALLBACKS in asked else None,
            stream=crowd_on_one_stream(place) if STREAM in asked else None,
            sustained=sustain_callbacks(place) if STEADY in asked else None,
            verification_us=verification_us() if VERIFIED in asked else None,
            left_out=tuple(missing.values()),
        )
