"""Schemas and values that take long to be held against each other, and values that take long to be read."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import oracle
from tests.streams import http_reply
from tests.support.calling import call, caller, result, value
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, ToolServer, definition, echo, tool_server

pytestmark = pytest.mark.anyio

HERE_S = 1.0  # of the gateway's own processor time, in which neighbours wait; each of these took 39 s to minutes
SIZE = 1024 * 1024 - 256
BOTH = r"(?=.*[A-Z])(?=.*[0-9]).{8,}"
WARNED = "a result does not fit its tool's output schema"
LONG = "takes too long to be checked"
SLOW = {
    "LookAround": ({"pattern": BOTH}, "a" * 900_000),
    "Repeats": ({"pattern": "a[ab]{5000}c"}, "ab" * 150_000),
    "Bounds": ({"items": {"allOf": [{"minimum": 0}] * 8000}}, [0] * 500_000),
}
EMPTY = b"[%b{}]" % (b"{}," * (SIZE // 3 - 100))
NESTED = b"[%b0]" % ((b"[" * 50 + b"]" * 50 + b",") * 3_000)
LARGE = b'{"call_id":"%b","success":true,"value":[%b{}]}'
ANY: dict[str, Any] = {"type": "object", "properties": {"a": {}}}


def tool(name: str, given: Any, returned: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"a": given}}
    return definition(f"Lab.{name}", input_schema={"parameters": parameters}, output_schema=returned)


async def return_slow(exchange: Exchange) -> None:
    """Returns what its own output schema takes minutes for."""
    await exchange.finish(value=SLOW["LookAround"][1])


async def return_large(exchange: Exchange) -> None:
    """Returns 6 MB of empty objects."""
    body = LARGE % (exchange.request.call["call_id"].encode(), b"{}," * 2_000_000)
    await exchange.write(http_reply(200, body, content_type="application/json"))


@pytest.fixture(scope="module")
async def lab() -> AsyncIterator[ToolServer]:
    definitions = [tool(name, schema, {}) for name, (schema, _) in SLOW.items()]
    definitions += [tool("Echo", {}, {}), tool("Large", {}, {"type": "array", "items": {"type": "object"}})]
    definitions += [tool(name, {}, SLOW["LookAround"][0]) for name in ("Warned", "Failed")]
    tools = dict.fromkeys((f"Lab.{name}" for name in (*SLOW, "Echo")), echo)
    tools |= {"Lab.Warned": return_slow, "Lab.Failed": return_slow, "Lab.Large": return_large}
    async with tool_server(tools, definitions) as server:
        yield server


@pytest.fixture(scope="module")
async def running(lab: ToolServer) -> AsyncIterator[GatewayProcess]:
    config = settings({"lab": {"protocol": "otc", "url": lab.url}})
    config["routes"].insert(0, {"tools": "Lab.Failed", "backend": "lab", "validate_output": "fail"})
    async with gateway(config) as running:
        yield running


@pytest.fixture
async def http(running: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A caller; what its calls take of the gateway's own process is bounded."""
    used = running.processor_s()
    async with caller(running.url) as http:
        yield http
    assert running.processor_s() - used < HERE_S


async def post(http: httpx.AsyncClient, tool: str, arguments: bytes) -> httpx.Response:
    body = b'{"$schema":"otc://1.0","request":{"tool_id":"%b","input":%b}}' % (tool.encode(), arguments)
    response = await http.post("/otc/tools/call", content=body, headers={"Content-Type": "application/json"})
    oracle.check("otc", "call", response.status_code, response.headers, response.content)
    return response


@pytest.mark.parametrize("name", SLOW)
async def test_an_input_that_takes_too_long_is_refused(http: httpx.AsyncClient, lab: ToolServer, name: str) -> None:
    refused = await call(http, f"Lab.{name}", {"a": SLOW[name][1]})
    assert refused.status_code == 422
    assert refused.json()["parameter_errors"] == {"input": LONG}
    assert lab.calls(f"Lab.{name}") == []


async def test_others_are_answered_while_a_long_check_is_under_way(http: httpx.AsyncClient) -> None:
    checking = asyncio.ensure_future(call(http, "Lab.LookAround", {"a": SLOW["LookAround"][1]}))
    answered = 0
    while not checking.done():
        assert value(await call(http, "Lab.Echo", {"a": 1})) == {"a": 1}
        answered += 1
    assert (await checking).status_code == 422
    assert answered > 3


@pytest.mark.parametrize("text", [EMPTY, NESTED], ids=["empty objects", "nested arrays"])
async def test_a_body_of_very_many_values_is_passed_on_as_it_is(
    http: httpx.AsyncClient, lab: ToolServer, text: bytes
) -> None:
    arguments = b'{"a":%b}' % text
    response = await post(http, "Lab.Echo", arguments)
    assert response.status_code == 200
    assert lab.calls("Lab.Echo")[-1].call["input"] == json.loads(arguments)
    assert value(response) == json.loads(arguments)


async def test_a_body_of_very_many_values_is_validated(http: httpx.AsyncClient, lab: ToolServer) -> None:
    response = await post(http, "Lab.LookAround", b'{"a":"short","b":%b}' % EMPTY)
    assert response.status_code == 422
    assert "pattern" in response.json()["parameter_errors"]["a"]
    assert lab.calls("Lab.LookAround") == []


async def test_a_result_of_very_many_values_is_passed_on_and_checked(http: httpx.AsyncClient) -> None:
    response = await http.post("/otc/tools/call", json={"request": {"tool_id": "Lab.Large", "input": {}}})
    assert response.status_code == 200
    assert response.json()["result"]["value"] == [{}] * 2_000_001


def children_of(pid: int) -> list[int]:
    """The processes that another has started (proc_pid_stat(5))."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_no_result_is_lost_with_the_process_that_was_to_read_it(
    http: httpx.AsyncClient, running: GatewayProcess, number: signal.Signals
) -> None:
    async def large() -> int:
        response = await http.post("/otc/tools/call", json={"request": {"tool_id": "Lab.Large", "input": {}}})
        return len(response.json()["result"]["value"])

    assert await large() == 2_000_001
    children = children_of(running.process.pid)
    assert children
    for child in children:
        os.kill(child, number)
    assert {*await asyncio.gather(large(), large())} == {2_000_001}


async def test_a_result_that_takes_too_long_to_check_is_returned_with_a_warning(
    http: httpx.AsyncClient, running: GatewayProcess
) -> None:
    assert value(await call(http, "Lab.Warned")) == SLOW["LookAround"][1]
    await until(lambda: bool(running.logged(WARNED)), "the warning is written")
    (warned,) = running.logged(WARNED)
    assert warned["tool"] == "Lab.Warned@1.0.0"
    assert warned["reason"] == f"it {LONG}"


async def test_a_result_that_takes_too_long_to_check_fails_where_the_route_says_so(http: httpx.AsyncClient) -> None:
    outcome = result(await call(http, "Lab.Failed"))
    assert outcome["success"] is False
    assert "does not fit its own output schema" in outcome["error"]["message"]


async def test_a_kept_call_of_very_many_values_is_joined(http: httpx.AsyncClient, lab: ToolServer) -> None:
    body = b'{"request":{"tool_id":"Lab.Echo","call_id":"k","input":{"a":[%b{}]}}}' % (b"{}," * 60_000)
    before = len(lab.calls("Lab.Echo"))
    answers = [
        await http.post("/otc/tools/call", content=body, headers={"Content-Type": "application/json"}) for _ in "ab"
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert value(answers[0]) == value(answers[1]) == json.loads(body)["request"]["input"]
    assert len(lab.calls("Lab.Echo")) == before + 1
