"""The checks of RAP: good servers pass them all, and each check fails for its own fault and nothing unrelated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

import httpx
import pytest

from conformance.tests.faulty_rap import PATIENT_S, TOKEN, TOOLS, faulty_rap
from conformance.tests.judging import AT_ONCE, grouped, reasons
from tests import plainhttp
from tests.support.ports import lasting_port
from tests.support.processes import demo_server, listening
from toolgate_conformance.callbacks import Address
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import NEEDS_CALL, Report, Status
from toolgate_conformance.protocols import SERVERS
from toolgate_conformance.running import LIMIT_S, run
from toolgate_conformance.servers.rap.invocation import Waits
from toolgate_conformance.servers.rap.subject import rap_subject

pytestmark = pytest.mark.anyio

DEMONSTRATION = (
    ToolCall("lint", {"source": "x \n"}),
    ToolCall("build", {"seconds": 0.1}),
    ToolCall("photo", {}),
    ToolCall("explode", {}),
    ToolCall("watch", {"events": 2}),
    ToolCall("watch", {"events": 50, "pause_s": 0.05}),
    ToolCall("ask", {}),
    ToolCall("deploy", {"target": "staging"}, {"user_id": "ada"}),
)
CALLS = (
    ToolCall("note", {"text": "hello"}),
    *(ToolCall(name, {}) for name in ("photo", "watch", "tick", "ask", "deploy")),
)
OBSERVED = ("kit-observed-0", "kit-observed-1", "kit-observed-2")
PATIENT = Waits(result_s=20.0, ack_s=5.0, hold_s=0.3, quiet_s=0.3, consent_s=20.0)
BRIEF = Waits(result_s=8.0, ack_s=2.0, hold_s=0.3, quiet_s=0.15, consent_s=1.0)  # of a server in the same process
HOLDING = Waits(result_s=8.0, ack_s=2.0, hold_s=2 * PATIENT_S, quiet_s=0.15, consent_s=1.0)


async def judged(
    url: str,
    token: str | None,
    calls: Sequence[ToolCall],
    waits: Waits,
    tell: Callable[[str], None] = print,
    *,
    address: Address | None = None,
    limit_s: float = LIMIT_S,
    only: Collection[str] = (),
) -> Report:
    """All checks, or only some, against the server at a URL; `tell` is the person who runs them."""
    checks = [check for check in SERVERS["rap"].checks() if not only or check.id in only]
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    transport = httpx.AsyncHTTPTransport(verify=plainhttp.NO_AUTHORITY)
    async with rap_subject(url, headers, calls, waits, transport, address=address, tell=tell) as server:
        return await run("RAP", url, checks, server, limit_s=limit_s)


async def test_the_demonstration_server_passes() -> None:
    async with demo_server("rap") as server, plainhttp.async_client() as browser:
        consents = set()

        def consent(sentence: str) -> None:
            url = sentence.partition("'")[2].partition("'")[0]
            consents.add(asyncio.create_task(browser.post(url)))

        report = await judged(server.url, None, DEMONSTRATION, PATIENT, consent)
        assert [answer.status_code for answer in await asyncio.gather(*consents)] == [200]
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED).keys() == {"RAP-029", "RAP-090", "RAP-091"}


async def test_the_demonstration_server_asks_for_its_token_everywhere() -> None:
    async with listening("gateway.demo.rap_server", "--port", "0", "--token", TOKEN) as (_, url):
        report = await judged(url, TOKEN, (), PATIENT)
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.PASSED).keys() >= {"RAP-090", "RAP-091"}


async def test_without_a_call_only_a_tool_runs_that_is_declared_to_read() -> None:
    said: list[str] = []
    async with demo_server("rap") as server:
        report = await judged(server.url, None, (), PATIENT, said.append)
        executions: dict[str, Any] = dict(await server.executions())
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED).keys() >= {"RAP-064", "RAP-080", "RAP-081"}
    assert said == ["lint is called, because the toolset declares it as readOnly."]
    assert {name for name, count in executions["operations"].items() if count} == {"lint"}


async def test_without_a_call_no_tool_runs_that_is_not_declared_to_read() -> None:
    async with faulty_rap("undeclared") as server:
        report = await judged(server.url, TOKEN, (), BRIEF)
        ran = [body for body in server.bodies.values() if server.wrong(body) is None]
    assert ran == []
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED)["RAP-020"] == NEEDS_CALL


@pytest.mark.parametrize("unusual", ["updates", "asks"])
async def test_what_is_unusual_and_no_fault_passes(unusual: str) -> None:
    async with faulty_rap(unusual) as server:
        report = await judged(server.url, TOKEN, CALLS, BRIEF, lambda sentence: server.consented.set())
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED) == {}


async def test_a_proxy_before_the_receiver_may_strip_a_path() -> None:
    port = lasting_port()
    address = Address(port=port, url=f"http://127.0.0.1:{port}/kit")
    async with faulty_rap("proxied") as server:
        report = await judged(server.url, TOKEN, CALLS[:2], BRIEF, address=address)
    assert reasons(report, Status.FAILED) == {}
    assert "RAP-039" in reasons(report, Status.PASSED)


async def test_calls_that_outlast_a_check_are_not_made_again() -> None:
    async with faulty_rap("slow") as server:
        report = await judged(server.url, TOKEN, CALLS[:1] * 3, BRIEF, limit_s=0.8)
        observed = [body for body in server.bodies.values() if body.get("call_id") in OBSERVED]
    assert len(observed) == len(OBSERVED)
    assert "RAP-030" in reasons(report, Status.PASSED)


async def test_destructive_tools_get_no_invalid_call_either() -> None:
    async with faulty_rap("undeclared") as server:
        report = await judged(server.url, TOKEN, (), BRIEF)
        asked = {body["operation"] for body in server.bodies.values()}
    assert asked & set(TOOLS) == set()
    assert reasons(report, Status.SKIPPED).keys() >= {"RAP-042", "RAP-043"}


# The faults.

FAULTS = (
    *(str(number) for number in (*range(1, 13), *range(20, 25), *range(29, 49), *range(50, 53), *range(60, 67), 70)),
    *(str(number) for number in (*range(80, 86), 90, 91)),
    *("22b", "36b", "36c", "36d", "36e", "48b", "64b", "82b"),
)
# A server that drops a call does not say what is wrong with it either; one that refuses a call because its callback is
# not answered at once does so wherever the kit answers late.
SEEN_BY_MORE = {
    "22b": {"RAP-022", "RAP-052"},
    "40": {"RAP-040", "RAP-041"},
    "42": {"RAP-042", "RAP-043"},
}
OF_NO_TOKEN = ("12",)  # credentials go to no other origin


async def test_the_small_server_without_a_fault_passes() -> None:
    async with faulty_rap() as server:
        report = await judged(server.url, TOKEN, CALLS, BRIEF, lambda sentence: server.consented.set())
    assert reasons(report, Status.FAILED) == {}
    assert reasons(report, Status.SKIPPED) == {}


def own_check(fault: str) -> str:
    """The check that a fault is named after."""
    return f"RAP-{int(fault.rstrip('abcde')):03d}"


async def found(fault: str, room: asyncio.Semaphore) -> set[str]:
    """Which of the checks that a fault concerns fail for a server that has it."""
    token = None if fault in OF_NO_TOKEN else TOKEN
    async with room, faulty_rap(fault, token) as server:
        consent = server.consented.set
        waits = HOLDING if fault == "22b" else BRIEF
        only = SEEN_BY_MORE.get(fault, {own_check(fault)})
        report = await judged(server.url, token, CALLS, waits, lambda sentence: consent(), only=only)
        return set(reasons(report, Status.FAILED))


@pytest.mark.parametrize("faults", grouped(FAULTS), ids=lambda faults: f"{faults[0]}-{faults[-1]}")
async def test_the_check_for_it_finds_a_fault(faults: list[str]) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    failed = await asyncio.gather(*(found(fault, room) for fault in faults))
    expected = {fault: SEEN_BY_MORE.get(fault, {own_check(fault)}) for fault in faults}
    assert dict(zip(faults, failed, strict=True)) == expected


def test_every_check_has_a_fault() -> None:
    assert {check.id for check in SERVERS["rap"].checks()} == {own_check(fault) for fault in FAULTS}
