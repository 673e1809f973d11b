"""What worker processes count is added up, and labels stay bounded across all of them."""

from __future__ import annotations

import pytest

from gateway.metrics import GaugeSample, Metrics, families, merge_samples
from gateway.metrics.store import Counted, MetricStore
from tests.support.scraping import KNOWN, made, scraped

pytestmark = pytest.mark.anyio

REQUESTS = "toolgate_requests_total{dialect=otc,operation=call,status=200}"


def report(worker: Metrics, supervisor: Metrics) -> None:
    """Hands over what the worker has counted since its last report, some rows at a time."""
    while rows := worker.store.take(3):
        supervisor.add(rows)


def call(worker: Metrics, tool: str = "Mail.Send") -> None:
    worker.request("otc", "call", 200, 0.5, 0.25)
    worker.tool_call("mail", tool, "ok", 0.25, "key:ci")


async def test_workers_are_added_up_and_no_call_is_counted_twice() -> None:
    supervisor, workers = made(), [made(), made()]
    for calls in (1000, 24):
        for worker in workers:
            for _ in range(calls):
                call(worker)
            report(worker, supervisor)
    found = await scraped(supervisor)
    assert found[REQUESTS] == 2048
    assert found["toolgate_request_duration_seconds_count{dialect=otc,operation=call}"] == 2048
    assert found["toolgate_request_duration_seconds_sum{dialect=otc,operation=call}"] == 1024
    assert found["toolgate_request_duration_seconds_bucket{dialect=otc,le=0.5,operation=call}"] == 2048
    assert found["toolgate_request_duration_seconds_bucket{dialect=otc,le=0.25,operation=call}"] == 0


async def test_what_was_bound_but_never_counted_is_shown_as_zero() -> None:
    supervisor, worker = made(), made()
    worker.tool_call("mail", "Mail.Send", "invalid", 0.0, "key:ci")
    report(worker, supervisor)
    found = await scraped(supervisor)
    assert found["toolgate_tool_call_duration_seconds_count{backend=mail,protocol=oxp}"] == 0


async def test_all_workers_together_have_labels_for_so_many_tools_only() -> None:
    supervisor, first, second = (made(max_tools=2) for _ in range(3))
    for worker, tool in ((first, "A.a"), (second, "B.b"), (first, "C.c"), (second, "A.a"), (second, "D.d")):
        call(worker, tool)
        report(worker, supervisor)
    assert await _tools(supervisor) == {"A.a": 2, "B.b": 1, "other": 2}
    for metrics in (supervisor, first, second):
        metrics.use_labels(KNOWN, max_tools=3)
    for worker in (first, second):
        call(worker, "D.d")
        report(worker, supervisor)
    assert await _tools(supervisor) == {"A.a": 2, "B.b": 1, "D.d": 2, "other": 2}


async def _tools(metrics: Metrics) -> dict[str, float]:
    found = await scraped(metrics)
    return {name.partition("tool=")[2].rstrip("}"): value for name, value in found.items() if "tool=" in name}


async def test_rows_of_another_version_of_the_gateway_are_left_out() -> None:
    supervisor = made()
    foreign: list[Counted] = [("toolgate_gone_total", (), [1.0]), ("toolgate_overhead_seconds", (), [1.0, 2.0])]
    supervisor.add(foreign)
    assert (await scraped(supervisor))["toolgate_overhead_seconds_count"] == 0


def test_thousands_of_rows_are_handed_over_in_parts() -> None:
    metrics = made(max_tools=3000)
    for number in range(3000):
        metrics.tool_call("mail", f"Mail.T{number}", "ok", 0.1, "key:ci")
    supervisor, parts = MetricStore(), 0
    while rows := metrics.store.take(1000):
        assert len(rows) <= 1000
        supervisor.add(rows, 3000)
        parts += 1
    assert parts == 4
    calls = [series.values for series in supervisor.read() if series.family is families.TOOL_CALLS]
    assert calls == [(1.0,)] * 3000


def test_of_the_states_of_several_workers_the_worst_is_shown() -> None:
    samples = [
        GaugeSample(family, (), value)
        for family, values in ((families.STATE_UP, (1.0, 0.0)), (families.CATALOGUE_AGE, (5.0, 70.0)))
        for value in values
    ]
    in_flight = [GaugeSample(families.IN_FLIGHT, ("mail",), 2.0)] * 2
    assert merge_samples([*samples, *in_flight]) == [
        GaugeSample(families.STATE_UP, (), 0.0),
        GaugeSample(families.CATALOGUE_AGE, (), 70.0),
        GaugeSample(families.IN_FLIGHT, ("mail",), 4.0),
    ]
