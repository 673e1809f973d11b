"""All that can be measured, by the names that `--only` takes, and the run that measures it."""

from __future__ import annotations

from collections.abc import Collection

from tests.bench import figures
from tests.bench.crowds import CALLED_TOOLS, FEW_TOOLS, crowd_on_one_stream, sustain_callbacks, weigh_waiting_calls
from tests.bench.figures import LOAD, Outcome
from tests.bench.machine import BenchError, pinned
from tests.bench.rounds import Effort, Place, Rounds
from tests.bench.subjects import NGINX, Load, Subject, echo, nginx, toolgate

FULL = Effort(
    rounds=3,
    slices=6,
    slice_s=0.4,
    warm_up_s=0.15,
    waiting_calls=2000,
    stream_calls=1000,
    stream_times=5,
    many_tools=10_000,
    steady_s=(7.0, 12.0),
    result_ttl_s=6,
    patience_s=45.0,
)
QUICK = Effort(
    rounds=1,
    slices=1,
    slice_s=0.05,
    warm_up_s=0.02,
    waiting_calls=50,
    stream_calls=50,
    stream_times=1,
    many_tools=200,
    steady_s=(0.2, 0.2),
    result_ttl_s=1,
    patience_s=0.0,
)

PACE = 250.0  # calls a second: few enough that none waits for another
WAITING, WAITING_CALLBACKS, STREAM, STEADY = "waiting", "waiting-callbacks", "stream", "steady"
APART = (WAITING, WAITING_CALLBACKS, STREAM, STEADY)  # what is measured after the rounds


def subjects(many: int) -> list[Subject]:
    """All servers that are measured in rounds; one connection shows latency without queueing."""
    few, called = FEW_TOOLS, CALLED_TOOLS
    state = tuple(Load(row, LOAD, keyed=keyed) for row, keyed in ((figures.REDIS, False), (figures.REDIS_KEYED, True)))
    return [
        Subject("echo", echo, few, called, (Load(figures.ECHO, 1), Load(figures.ECHO, LOAD))),
        Subject("nginx", nginx, few, called, (Load(figures.NGINX_PROXY, 1), Load(figures.NGINX_PROXY, LOAD))),
        Subject(
            figures.MAIN_SUBJECT,
            toolgate,
            few,
            called,
            (*(Load(figures.TOOLGATE, count) for count in (1, 8, LOAD, 256)), Load(figures.KEYED, LOAD, keyed=True)),
        ),
        Subject("many", toolgate, many, called, (Load(figures.TOOLGATE_MANY, LOAD),)),
        Subject("every", toolgate, many, many - 1, (Load(figures.TOOLGATE_EVERY, LOAD),)),
        Subject("redis", toolgate, few, called, state, redis=True),
        _callbacks("callback", figures.CALLBACK, figures.CALLBACK_PACED),
        _callbacks("callback-redis", figures.CALLBACK_REDIS, figures.CALLBACK_REDIS_PACED, redis=True),
    ]


def _callbacks(name: str, busy: str, paced: str, *, redis: bool = False) -> Subject:
    loads = (Load(busy, LOAD), Load(paced, LOAD, rate=PACE))
    return Subject(name, toolgate, FEW_TOOLS, CALLED_TOOLS, loads, protocol="callback", redis=redis)


def names() -> list[str]:
    """What `--only` may name."""
    return [*(subject.name for subject in subjects(FEW_TOOLS)), *APART]


def run(place: Place, only: Collection[str]) -> Outcome:
    """Measures everything, or what is named. Raises BenchError."""
    if unknown := sorted(set(only) - set(names())):
        raise BenchError(f"There is no {', '.join(unknown)} to measure, but {', '.join(names())}.")
    wanted = [subject for subject in subjects(place.effort.many_tools) if subject.name in (only or names())]
    found = [subject for subject in wanted if subject.name != "nginx" or NGINX]

    def asked(name: str) -> bool:
        return not only or name in only

    with pinned(place.cores.others):
        return Outcome(
            rounds=Rounds(place, found).measure(),
            waiting=weigh_waiting_calls(place, "oxp") if asked(WAITING) else None,
            waiting_callbacks=weigh_waiting_calls(place, "callback") if asked(WAITING_CALLBACKS) else None,
            stream=crowd_on_one_stream(place) if asked(STREAM) else None,
            sustained=sustain_callbacks(place) if asked(STEADY) else None,
        )
