"""The history of the overview: what was counted in each step, and how long calls took."""

from __future__ import annotations

from gateway.console.history import STEP_S, STEPS, History
from gateway.metrics import LabelValues, Metrics

VALUES = LabelValues(dialects=frozenset({"oxp"}), protocols={"shop": "otc"}, accounts=frozenset({"key:job"}))


def counted() -> tuple[Metrics, History]:
    metrics = Metrics(VALUES, max_tools=10, gauges=lambda: ())
    ticks = iter(1000 + STEP_S * number for number in range(STEPS * 2))
    return metrics, History(metrics, lambda: next(ticks))


def call(metrics: Metrics, outcome: str, duration_s: float = 0.002, account: str = "key:job") -> None:
    metrics.request("oxp", "call", 200, duration_s, duration_s / 2, account)
    metrics.tool_call("shop", "Shop.Buy", outcome, duration_s / 2, account)


def test_a_gateway_that_has_just_started_has_no_steps() -> None:
    _, history = counted()
    shown = history.as_json()
    assert shown["calls"] == shown["p50_ms"] == []
    assert (shown["step_s"], shown["steps"], shown["ends_at"]) == (STEP_S, STEPS, 1000)


def test_each_step_has_what_was_counted_in_it() -> None:
    metrics, history = counted()
    for outcome in ("ok", "ok", "tool_error", "refused"):
        call(metrics, outcome)
    metrics.refused("key:job", "forbidden")
    history.step()
    history.step()
    call(metrics, "timeout", account="")
    metrics.refused("", "unauthenticated")
    history.step()
    shown = history.as_json()
    assert shown["calls"] == [4, 0, 1]
    assert shown["failures"] == [1, 0, 1]
    assert shown["refusals"] == {"forbidden": [1, 0, 0], "unauthenticated": [0, 0, 1]}
    assert shown["ends_at"] == 1000 + 3 * STEP_S


def test_times_are_interpolated_within_their_bucket_and_absent_without_calls() -> None:
    metrics, history = counted()
    for _ in range(100):
        call(metrics, "ok", 0.002)  # between 1 ms and 2.5 ms
    history.step()
    history.step()
    shown = history.as_json()
    assert shown["p50_ms"] == [1.75, None]
    assert shown["p99_ms"] == [2.485, None]
    assert shown["own_p50_ms"] == [0.75, None]  # 1 ms each, between 0.5 ms and 1 ms


def test_calls_longer_than_any_bucket_count_as_its_last_bound() -> None:
    metrics, history = counted()
    call(metrics, "ok", 100.0)
    history.step()
    assert history.as_json()["p99_ms"] == [60_000]


def test_only_the_last_quarter_of_an_hour_is_kept() -> None:
    metrics, history = counted()
    call(metrics, "ok")
    for _ in range(STEPS + 1):
        history.step()
    shown = history.as_json()
    assert len(shown["calls"]) == STEPS
    assert sum(shown["calls"]) == 0
