"""The checks of RCRT: a server that is as it should be passes, and each fault is found by the check for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any
from uuid import uuid4

import pytest

from conformance.tests.faulty_rcrt import FAULTS, HARMLESS, faulty_rcrt
from conformance.tests.judging import AT_ONCE, grouped, reasons
from tests.support.processes import demo_server
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import Report, Status
from toolgate_conformance.protocols import SERVERS
from toolgate_conformance.running import run
from toolgate_conformance.servers.rcrt.server import rcrt_subject
from toolgate_conformance.servers.rcrt.store import Limits

pytestmark = pytest.mark.anyio

ECHO = ToolCall("echo", {"message": "kit ä€😀"})
# Checks that see a fault of another one, too: a server that is deaf on all streams but its first.
ALSO = {"RCRT-039": ("RCRT-037",)}
SHORT = Limits(event_s=1.0, first_ping_s=1.0, response_s=1.5, ping_s=1.0, quiet_s=0.1, poll_s=0.1)


async def judged(url: str, *calls: ToolCall, limits: Limits | None = None, only: Collection[str] = ()) -> Report:
    """All checks, or only some, against the server at a URL."""
    checks = [check for check in SERVERS["rcrt"].checks() if not only or check.id in only]
    async with rcrt_subject(url, {}, calls, limits=limits) as server:
        return await run("RCRT", url, checks, server)


async def test_the_demonstration_server_passes_whole() -> None:
    async with demo_server("rcrt") as demo:
        report = await judged(demo.url, ECHO)
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED) == {}


async def test_without_a_call_no_tool_runs() -> None:
    async with demo_server("rcrt") as demo:
        report = await judged(demo.url, limits=Limits(quiet_s=0.2))
        counts: dict[str, Any] = await demo.executions()
    assert not any(counts["tools"].values())
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED).keys() == {
        "RCRT-054",
        *(f"RCRT-{n:03}" for n in (*range(60, 70), 72, 73, 74)),
    }


@pytest.mark.parametrize("fault", ["", "RCRT-003", "RCRT-007", "RCRT-025"])
async def test_what_the_checks_store_is_deleted(fault: str) -> None:
    async with faulty_rcrt(fault) as url:
        await judged(url, ECHO, limits=SHORT)
        async with rcrt_subject(url, {}, []) as server:
            left, _ = await server.entries(tag="toolgate-kit")
            responses, _ = await server.entries(schema_name="tool.response.v1")
    assert (left, responses) == ([], [])


@pytest.mark.parametrize("trait", HARMLESS)
async def test_what_a_server_may_do_fails_no_more_than_recommendations(trait: str) -> None:
    async with faulty_rcrt(trait) as url:
        report = await judged(url, ECHO, limits=SHORT)
    assert reasons(report, Status.FAILED).keys() == HARMLESS[trait]
    assert report.is_good


async def test_a_token_that_is_given_may_be_of_any_owner() -> None:
    async with faulty_rcrt() as url, rcrt_subject(url, {}, [], owner_id=str(uuid4())) as other:
        token = (await other.mint()).member("token")
        async with rcrt_subject(url, {"authorization": f"Bearer {token}"}, [], limits=SHORT) as server:
            report = await run("RCRT", url, SERVERS["rcrt"].checks(), server)
    assert reasons(report, Status.FAILED) == {}


def test_each_check_has_a_fault() -> None:
    assert [check.id for check in SERVERS["rcrt"].checks()] == FAULTS


async def found(fault: str, room: asyncio.Semaphore) -> dict[str, str]:
    """Which of the checks that a fault concerns fail for a server that has it, and why."""
    async with room, faulty_rcrt(fault) as url:
        return reasons(await judged(url, ECHO, limits=SHORT, only=(fault, *ALSO.get(fault, ()))), Status.FAILED)


@pytest.mark.parametrize("faults", grouped(FAULTS), ids=lambda faults: f"{faults[0]}-{faults[-1]}")
async def test_the_check_for_it_finds_a_fault(faults: list[str]) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    failed = await asyncio.gather(*(found(fault, room) for fault in faults))
    assert [set(it) for it in failed] == [{fault, *ALSO.get(fault, ())} for fault in faults]
