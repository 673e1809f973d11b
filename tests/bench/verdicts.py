"""The figures to hold up: what is owed of each, and what else is worth comparing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tests.bench.figures import (
    CALLBACK_PACED,
    CALLBACK_REDIS,
    CALLBACK_REDIS_PACED,
    ECHO,
    KEYED,
    LOAD,
    MAIN_SUBJECT,
    NGINX_PROXY,
    REDIS,
    REDIS_KEYED,
    TOOLGATE,
    TOOLGATE_EVERY,
    TOOLGATE_MANY,
    Outcome,
    Sample,
    median_of,
    ratio,
)

MAIN = (TOOLGATE, LOAD)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what it is, what was measured, and what is owed of it at most, or with `at_least` at least."""

    what: str
    measured: float
    unit: str
    owed: float | None = None
    at_least: bool = False

    @property
    def ok(self) -> bool:
        if self.owed is None:
            return True
        return self.measured >= self.owed if self.at_least else self.measured <= self.owed


def lines(outcome: Outcome) -> list[Line]:
    """What is owed first, then what else is worth comparing; what was not measured is left out."""
    found = [
        _line("CPU of a call / uvicorn echo", ratio(outcome, MAIN, (ECHO, LOAD)), "x", 3.0),
        _line("CPU of a call, 256 connections / 8", ratio(outcome, (TOOLGATE, 256), (TOOLGATE, 8)), "x", 1.4),
        # Owed is "the same"; rounds of a quiet machine differ by a few per cent.
        _line("CPU of a call, many tools / 10", ratio(outcome, (TOOLGATE_MANY, LOAD), MAIN), "x", 1.1),
        _line("CPU of a keyed call / one without", ratio(outcome, (KEYED, LOAD), MAIN), "x", 1.08),
        _line(
            "CPU of a keyed call / one without, Redis", ratio(outcome, (REDIS_KEYED, LOAD), (REDIS, LOAD)), "x", 1.35
        ),
        _line("from callback to answer, p99", _handover_ms(outcome, CALLBACK_PACED), "ms", 2.0),
        _line("from callback to answer, p99, Redis", _handover_ms(outcome, CALLBACK_REDIS_PACED), "ms", 5.0),
        _line("callback calls on one core, Redis", _rate(outcome, CALLBACK_REDIS), "/s", 1000.0, at_least=True),
        *_memory(outcome),
        *_stream(outcome),
        # The catalogue no longer fits the processor's caches when every tool of it is used.
        _line("CPU of a call, all of many called / 10", ratio(outcome, (TOOLGATE_EVERY, LOAD), MAIN), "x"),
        _line(
            "p99 / p50 at 64 connections", median_of(outcome, MAIN, lambda sample: sample.p99_ms / sample.p50_ms), "x"
        ),
        _line("CPU of a call / nginx proxy", ratio(outcome, MAIN, (NGINX_PROXY, LOAD)), "x"),
        _line("p50 of a lone caller / nginx proxy", ratio(outcome, (TOOLGATE, 1), (NGINX_PROXY, 1), _p50), "x"),
    ]
    measured = [line for line in found if line is not None]
    return sorted(measured, key=lambda line: line.owed is None)


def _line(
    what: str, measured: float | None, unit: str, owed: float | None = None, *, at_least: bool = False
) -> Line | None:
    return None if measured is None else Line(what, measured, unit, owed, at_least)


def _memory(outcome: Outcome) -> Iterator[Line]:
    idle = [round_.idle_bytes[MAIN_SUBJECT] for round_ in outcome.rounds if MAIN_SUBJECT in round_.idle_bytes]
    if idle:
        yield Line("idle memory", median(idle) / 1e6, "MB", 80.0)
    if outcome.waiting is not None:
        yield Line("memory of a waiting call", outcome.waiting.bytes_per_call / 1024, "KB", 32.0)
    if outcome.waiting_callbacks is not None:
        yield Line("memory of a waiting callback call", outcome.waiting_callbacks.bytes_per_call / 1024, "KB", 16.0)
    if outcome.sustained is not None:
        yield Line("memory growth under callbacks", outcome.sustained.growth_percent, "%", 5.0)


def _stream(outcome: Outcome) -> Iterator[Line]:
    if outcome.stream is not None:
        yield Line("calls at once on one event stream", outcome.stream.calls, "", 1000.0, at_least=True)
        yield Line("time until all of them are answered", outcome.stream.wall_s, "s")
        yield Line("CPU of each of them", outcome.stream.cpu_us, "us")


def _handover_ms(outcome: Outcome, row: str) -> float | None:
    return median_of(outcome, (row, LOAD), lambda sample: sample.handover_p99_ms)


def _rate(outcome: Outcome, row: str) -> float | None:
    return median_of(outcome, (row, LOAD), lambda sample: sample.calls_per_s)


def _p50(sample: Sample) -> float:
    return sample.p50_ms
