"""Several workers count together: nothing is lost with one that dies, except what its gauges showed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.metrics import Reading, Scraper, SharedStore, families, read_shared
from tests.support.scraping import KNOWN, Samples, made, samples_of

CHECKOUT = Path(__file__).parents[3]
CALLS = "toolgate_tool_calls_total{{backend=mail,outcome=ok,protocol=oxp,tool=Mail.{}}}"


class Worker:
    """A process with a store of its own in the directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.metrics.worker", str(directory), name],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hears(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def count(self, calls: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        self.hears("done")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


Start = Callable[[str], Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start_one(name: str) -> Worker:
            worker = Worker(tmp_path, name)
            stack.callback(worker.close)
            worker.hears("ready")
            return worker

        yield start_one


def shown(directory: Path) -> Samples:
    """What a process sees that counts nothing itself, such as a supervisor."""
    return samples_of(asyncio.run(Scraper(lambda: None, lambda: read_shared(directory)).text()))


def test_workers_count_together_and_a_killed_one_takes_only_its_gauges_along(tmp_path: Path, start: Start) -> None:
    first, second = start("first"), start("second")
    first.count(1000)
    second.count(500)
    second.count(24)
    found = shown(tmp_path)
    requests = "toolgate_requests_total{dialect=otc,operation=call,status=200}"
    assert found[requests] == 1524
    assert found[CALLS.format("first")] == 1000
    assert found[CALLS.format("second")] == 524
    assert found["toolgate_request_duration_seconds_count{dialect=otc,operation=call}"] == 1524
    assert found["toolgate_request_duration_seconds_sum{dialect=otc,operation=call}"] == 762
    assert found["toolgate_calls_in_flight{backend=mail}"] == 4

    first.kill()
    found = shown(tmp_path)
    assert found[requests] == 1524
    assert found["toolgate_calls_in_flight{backend=mail}"] == 2

    third = start("third")
    third.count(76)
    found = shown(tmp_path)
    assert found[requests] == 1600
    assert found[CALLS.format("first")] == 1000
    assert found["toolgate_calls_in_flight{backend=mail}"] == 4
    assert len(list(tmp_path.glob("*.rows"))) == 2  # the third goes on in the files of the first


def test_of_states_the_worst_is_shown(tmp_path: Path) -> None:
    stores = [SharedStore(tmp_path) for _ in range(2)]
    for store, up, age_s in zip(stores, (1.0, 0.0), (5.0, 70.0), strict=True):
        readings = [Reading(families.STATE_UP, (), up), Reading(families.CATALOGUE_AGE, ("mail",), age_s)]
        made(store, gauges=readings).publish()
    found = shown(tmp_path)
    assert found["toolgate_state_up"] == 0
    assert found["toolgate_catalogue_age_seconds{backend=mail}"] == 70
    for store in stores:
        store.close()


def test_a_gauge_of_a_dead_worker_is_not_shown_by_its_successor(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    made(store, gauges=[Reading(families.IN_FLIGHT, ("mail",), 9.0)]).publish()
    store.close()
    store = SharedStore(tmp_path)
    assert "toolgate_calls_in_flight{backend=mail}" not in shown(tmp_path)
    store.close()


def test_half_a_line_of_a_worker_that_died_while_writing_does_no_harm(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    made(store).auth_failure("expired")
    store.close()
    (rows,) = tmp_path.glob("*.rows")
    rows.write_bytes(rows.read_bytes() + b'["toolgate_rate_li')
    assert (shown(tmp_path))["toolgate_auth_failures_total{reason=expired}"] == 1
    store = SharedStore(tmp_path)
    metrics = made(store)
    metrics.auth_failure("expired")
    metrics.rate_limited("per-caller")
    found = shown(tmp_path)
    assert found["toolgate_auth_failures_total{reason=expired}"] == 2
    assert found["toolgate_rate_limited_total{rule=per-caller}"] == 1
    store.close()


def test_rows_of_another_version_are_left_alone(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    store.close()
    (rows,) = tmp_path.glob("*.rows")
    rows.write_text('["toolgate_gone_total",[],0,1]\n["toolgate_overhead_seconds",[],1,3]\n')
    store = SharedStore(tmp_path)
    made(store).request("otc", "call", 200, 0.5, 0.25)
    assert (shown(tmp_path))["toolgate_overhead_seconds_count"] == 1
    store.close()


def test_thousands_of_rows_fit(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    metrics = made(store, max_tools=3000)
    for number in range(3000):
        for outcome in ("ok", "tool_error", "timeout", "unknown"):
            metrics.tool_call("mail", f"Mail.T{number}", outcome, 0.1)
    calls = {}
    for series in read_shared(tmp_path):
        if series.family is families.TOOL_CALLS:
            calls[series.labels] = series.values
        if series.family is families.TOOL_DURATION:
            assert sum(series.values[:-1]) == 12000
    assert len(calls) == 12000
    assert set(calls.values()) == {(1.0,)}
    store.close()


def told_apart(directory: Path) -> dict[str, float]:
    """The labels of tools there are, with all that was counted under each."""
    found = shown(directory)
    names = {name.partition("tool=")[2].rstrip("}"): name for name in found if "tool=" in name}
    return {tool: found[name] for tool, name in names.items()}


def test_only_so_many_tools_are_told_apart_by_all_workers_together_and_those_that_follow_them(tmp_path: Path) -> None:
    stores = [SharedStore(tmp_path) for _ in range(2)]
    first, second = (made(store, max_tools=2) for store in stores)
    for metrics, tool in ((first, "A.a"), (second, "B.b"), (first, "C.c"), (second, "A.a"), (second, "D.d")):
        metrics.tool_call("mail", tool, "ok", 0.1)
    assert told_apart(tmp_path) == {"A.a": 2, "B.b": 1, "other": 2}
    stores.pop(0).close()
    stores.append(SharedStore(tmp_path))
    third = made(stores[-1], max_tools=2)
    for tool in ("E.e", "B.b"):
        third.tool_call("mail", tool, "ok", 0.1)
    assert told_apart(tmp_path) == {"A.a": 2, "B.b": 2, "other": 3}
    for metrics in (second, third):
        metrics.know(KNOWN, max_tools=3)
    for metrics, tool in ((third, "F.f"), (second, "G.g"), (third, "G.g"), (second, "F.f")):
        metrics.tool_call("mail", tool, "ok", 0.1)
    assert told_apart(tmp_path) == {"A.a": 2, "B.b": 2, "F.f": 2, "other": 5}
    for store in stores:
        store.close()


def test_half_a_name_of_a_worker_that_died_while_writing_is_no_tool_and_spoils_none(tmp_path: Path) -> None:
    (tmp_path / "tools").write_bytes(b'\n["A.a", "mail"]\n\n["B.b", "ma')
    store = SharedStore(tmp_path)
    metrics = made(store, max_tools=2)
    for tool in ("C.c", "B.b", "A.a"):
        metrics.tool_call("mail", tool, "ok", 0.1)
    assert told_apart(tmp_path) == {"A.a": 1, "C.c": 1, "other": 1}
    store.close()
