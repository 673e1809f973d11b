"""The checks of RCRT: a server that is as it should be passes, and each fault is found by the check for it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conformance.tests.faulty_rcrt import FAULTS, HARMLESS, faulty_rcrt
from tests.support.processes import demo_server
from toolgate_conformance.checks import Report, Status
from toolgate_conformance.rcrt import Limits, rcrt_checks, rcrt_subject
from toolgate_conformance.rest import ToolCall
from toolgate_conformance.running import run

ECHO = ToolCall("echo", {"message": "kit ä€😀"})
# Checks that see a fault of another one, too: a server that is deaf on all streams but its first.
ALSO = {"RCRT-039": ("RCRT-037",)}
SHORT = Limits(event_s=1.0, first_ping_s=1.0, response_s=1.5, ping_s=1.0, quiet_s=0.1, poll_s=0.1)


async def judged(url: str, *calls: ToolCall, limits: Limits | None = None) -> Report:
    async with rcrt_subject(url, {}, calls, limits=limits) as server:
        return await run("RCRT", url, rcrt_checks(), server)


def ids(report: Report, status: Status) -> set[str]:
    return {outcome.check.id for outcome in report.of(status)}


@pytest.mark.anyio
async def test_the_demonstration_server_passes_whole() -> None:
    async with demo_server("rcrt") as demo:
        report = await judged(demo.url, ECHO)
    assert {outcome.check.id: outcome.reason for outcome in report.of(Status.FAILED)} == {}
    assert {outcome.check.id: outcome.reason for outcome in report.of(Status.SKIPPED)} == {}


@pytest.mark.anyio
async def test_without_a_call_no_tool_runs() -> None:
    async with demo_server("rcrt") as demo:
        report = await judged(demo.url, limits=Limits(quiet_s=0.2))
        counts: dict[str, Any] = await demo.executions()
    assert not any(counts["tools"].values())
    assert ids(report, Status.FAILED) == set()
    assert ids(report, Status.SKIPPED) == {"RCRT-054", *(f"RCRT-{n:03}" for n in (*range(60, 70), 72, 73, 74))}


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["", "RCRT-003", "RCRT-007", "RCRT-025"])
async def test_what_the_checks_store_is_deleted(fault: str) -> None:
    async with faulty_rcrt(fault) as url:
        await judged(url, ECHO, limits=SHORT)
        async with rcrt_subject(url, {}, []) as server:
            left, _ = await server.entries(tag="toolgate-kit")
            responses, _ = await server.entries(schema_name="tool.response.v1")
    assert (left, responses) == ([], [])


@pytest.mark.anyio
@pytest.mark.parametrize("trait", HARMLESS)
async def test_what_a_server_may_do_fails_no_more_than_recommendations(trait: str) -> None:
    async with faulty_rcrt(trait) as url:
        report = await judged(url, ECHO, limits=SHORT)
    assert ids(report, Status.FAILED) == HARMLESS[trait], {it.check.id: it.reason for it in report.of(Status.FAILED)}
    assert report.is_good


@pytest.mark.anyio
async def test_a_token_that_is_given_may_be_of_any_owner() -> None:
    async with faulty_rcrt() as url, rcrt_subject(url, {}, [], owner_id=str(uuid4())) as other:
        token = (await other.mint()).member("token")
        async with rcrt_subject(url, {"authorization": f"Bearer {token}"}, [], limits=SHORT) as server:
            report = await run("RCRT", url, rcrt_checks(), server)
    assert ids(report, Status.FAILED) == set(), {it.check.id: it.reason for it in report.of(Status.FAILED)}


def test_each_check_has_a_fault() -> None:
    assert [check.id for check in rcrt_checks()] == FAULTS


@pytest.mark.anyio
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_fails_its_check_and_no_other(fault: str) -> None:
    async with faulty_rcrt(fault) as url:
        report = await judged(url, ECHO, limits=SHORT)
    seen = {fault, *ALSO.get(fault, ())}
    assert ids(report, Status.FAILED) == seen, {it.check.id: it.reason for it in report.of(Status.FAILED)}
