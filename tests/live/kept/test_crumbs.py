"""Breadcrumbs whose stream drops, breaks, is deaf or ends: a call ends with its value all the same (RCRT, Events)."""

from __future__ import annotations

import asyncio

import pytest

from tests.live.faults.calling import call, value
from tests.live.faults.processes import demo_server
from tests.live.kept.site import crumbs_settings, order, outcome, replica


@pytest.mark.anyio
@pytest.mark.parametrize(("what", "fault"), [("echo", "drop_event"), ("stream", "abrupt_end"), ("stream", "clean_end")])
async def test_a_lost_event_costs_time_and_not_the_result(what: str, fault: str) -> None:
    async with demo_server("rcrt") as crumbs, replica(crumbs_settings(crumbs)) as only:
        await order(crumbs, what, fault)
        end = await outcome(only.http, "Crumbs.echo", {"message": "hello"}, "one")
        assert end["value"] == {"echo": "hello"}


@pytest.mark.anyio
async def test_a_repeated_call_joins_the_one_that_runs() -> None:
    async with demo_server("rcrt") as crumbs, replica(crumbs_settings(crumbs)) as only:
        arguments = {"min": 0, "max": 10**9}
        answers = await asyncio.gather(*(call(only.http, "Crumbs.random", arguments, call_id="one") for _ in range(5)))
        assert len({value(answer)["numbers"][0] for answer in answers}) == 1
