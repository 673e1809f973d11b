"""Discovery goes on: what a new answer changes, what a failure leaves, and what a catalogue made anew begins with."""

from __future__ import annotations

import asyncio

import pytest

from gateway.catalogue.catalogue import Catalogue
from tests.unit.catalogue.asking import (
    DEADLINE_S,
    DOWN,
    ToolServer,
    found,
    ids,
    one_backend,
    route,
    running,
    source,
    tool,
)

pytestmark = pytest.mark.anyio


async def test_an_unchanged_answer_keeps_the_very_snapshot() -> None:
    server = ToolServer("crm", tool("A.X", {"type": "object", "properties": {}}), tool("A.Broken", {"type": "string"}))
    async with running(one_backend(server)) as (catalogue, hours):
        before = catalogue.router
        server.tools = [tool("A.X", {"properties": {}, "type": "object"}), tool("A.Broken", {"type": "string"})]
        await hours.pass_()
        assert catalogue.router is before


async def test_what_did_not_change_is_taken_over_into_a_new_snapshot() -> None:
    server = ToolServer("crm", tool("A.Same"), tool("A.Changed"))
    async with running(one_backend(server)) as (catalogue, hours):
        router, same, changed = catalogue.router, found(catalogue, "A.Same"), found(catalogue, "A.Changed")
        server.tools = [tool("A.Same"), tool("A.Changed", description="new")]
        await hours.pass_()
        assert catalogue.router is not router
        assert found(catalogue, "A.Same") is same
        assert found(catalogue, "A.Changed") is not changed
        assert found(catalogue, "A.Changed").definition.description == "new"


async def test_a_backend_that_fails_keeps_its_last_list_and_shows_its_age() -> None:
    server = ToolServer("crm", tool("A.X"))
    async with running(one_backend(server)) as (catalogue, hours):
        server.failure = DOWN
        await hours.pass_(60.0)
        await hours.pass_(5.0)
        status = catalogue.status("crm")
        assert ids(catalogue) == ["A.X@1.0.0"]
        assert (status.up, status.age_s, status.tools) == (False, 65.0, 1)
        assert status.last_error == "refused"
        server.failure = None
        await hours.pass_()
        status = catalogue.status("crm")
        assert (status.up, status.age_s, status.last_error) == (True, 0.0, None)


async def test_a_reload_evaluates_no_list_anew_of_which_nothing_has_changed() -> None:
    """A hundred thousand tools would take every worker 15 s. What was withheld no longer is."""
    same, asking = ToolServer("same", tool("A.X")), ToolServer("asking", tool("B.X"))
    sources = one_backend(same), source(asking, [route(asking, "B.*")])
    async with running(*sources) as (catalogue, hours):
        asking.tools = [tool("B.X", secrets=["KEY"])]
        await hours.pass_()
        assert found(catalogue, "B.X").withheld == {"KEY"}
        successor = Catalogue(sources, clock=lambda: hours.now, sleep=hours.sleep)
        await successor.adopt(catalogue)
        assert found(successor, "A.X") is found(catalogue, "A.X")
        assert found(successor, "B.X").withheld == frozenset()


async def test_a_backend_made_anew_has_the_list_of_the_one_before_until_it_is_asked() -> None:
    server, anew = ToolServer("crm", tool("A.X")), ToolServer("crm", tool("A.X"), tool("A.Y"))
    anew.failure = DOWN
    async with running(one_backend(server, terms="the same")) as (catalogue, hours):
        hours.now += 5.0
        successor = Catalogue([one_backend(anew, terms="the same")], clock=lambda: hours.now, sleep=hours.sleep)
        await successor.adopt(catalogue)
        assert (ids(successor), successor.status("crm").age_s) == (["A.X@1.0.0"], 5.0)
        assert found(successor, "A.X").backend is anew
        await successor.start()
        assert not successor.ready
        await hours.until_asleep(2)
        assert (ids(successor), successor.status("crm").last_error) == (["A.X@1.0.0"], "refused")
        anew.failure = None
        await hours.pass_()
        assert ids(successor) == ["A.X@1.0.0", "A.Y@1.0.0"]
        await successor.aclose()


async def test_a_reload_asks_a_backend_that_stays_when_its_list_is_due() -> None:
    server = ToolServer("crm", tool("A.X"))
    async with running(one_backend(server)) as (catalogue, hours):
        hours.now += 25.0
        successor = Catalogue([one_backend(server)], clock=lambda: hours.now, sleep=hours.sleep, uniform=min)
        await successor.adopt(catalogue)
        await successor.start()
        assert successor.ready
        await hours.until_asleep(2)
        assert hours.waits == [60.0, 35.0]
        await successor.aclose()


async def test_a_change_that_is_reported_during_a_reload_is_not_lost() -> None:
    """The catalogue before hears of it, and ends before it has asked."""
    server = ToolServer("crm", tool("A.X"))
    async with running(one_backend(server)) as (catalogue, hours):
        successor = Catalogue([one_backend(server)], clock=lambda: hours.now, sleep=hours.sleep)
        await successor.adopt(catalogue)
        await successor.start()
        server.tools = [tool("A.New")]
        catalogue.refresh("crm")
        await hours.until_asleep(3)
        successor.catch_up(catalogue)
        await catalogue.aclose()
        await hours.until_asleep(4)
        hours.wake(1.0)
        await hours.until_asleep(1)
        async with asyncio.timeout(DEADLINE_S):
            while ids(successor) != ["A.New@1.0.0"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await successor.aclose()


async def test_failures_are_retried_ever_more_slowly() -> None:
    server = ToolServer("crm")
    server.failure = DOWN
    async with running(one_backend(server)) as (_, hours):
        for _ in range(7):
            await hours.pass_()
        server.failure = None
        await hours.pass_()
        server.failure = DOWN
        await hours.pass_()
    assert hours.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 1.0]


async def test_each_wait_is_jittered_by_a_tenth() -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    async with running(one_backend(ToolServer("crm")), uniform=uniform) as (_, hours):
        assert asked == [(0.9, 1.1)]
        assert hours.waits == pytest.approx([66.0])


async def test_a_bug_in_an_adapter_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server, other = ToolServer("crm"), ToolServer("other", tool("A.X"))
    server.failure = KeyError("secret-value")
    routes = [route(server), route(other)]
    async with running(source(server, routes), source(other, routes)) as (catalogue, hours):
        assert ids(catalogue) == ["A.X@1.0.0"]
        assert catalogue.status("crm").last_error == "the gateway failed: KeyError"
        server.failure, server.tools = None, [tool("B.Y")]
        await hours.pass_()
        assert ids(catalogue) == ["A.X@1.0.0", "B.Y@1.0.0"]
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_a_snapshot_that_could_not_be_made_is_made_the_next_time() -> None:
    """Adapters owe us versions of numbers; one that does not deliver costs its own tools only."""
    server, other = ToolServer("crm", tool("A.X@nonsense")), ToolServer("other", tool("B.Y"))
    routes = [route(server), route(other)]
    async with running(source(server, routes), source(other, routes)) as (catalogue, hours):
        assert ids(catalogue) == ["B.Y@1.0.0"]
        assert not catalogue.status("crm").up
        server.tools = [tool("A.X")]
        await hours.pass_()
        assert ids(catalogue) == ["A.X@1.0.0", "B.Y@1.0.0"]
