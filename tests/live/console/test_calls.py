"""Calls that run or wait are shown, and end when an operator says so; their callers are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.demo.fleet import start_fleet
from tests.live.console.asking import Console, console
from tests.support.calling import call, call_once, caller, failure, value
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.tokens import SECRET, token
from tests.support.toolserver import Exchange, echo, tool_server

pytestmark = pytest.mark.anyio

SLOW, ECHO = "Lab.Slow", "Lab.Echo"


class Slow:
    """The tool that never answers; `left` is how many of its calls the gateway has given up."""

    def __init__(self) -> None:
        self.begun = self.left = 0

    async def __call__(self, exchange: Exchange) -> None:
        self.begun += 1
        await exchange.until_closed()
        self.left += 1


@asynccontextmanager
async def lab() -> AsyncIterator[tuple[GatewayProcess, Slow, Console]]:
    slow = Slow()
    auth = {"jwt": [{"issuer": "lab", "secret": SECRET}]}
    async with (
        tool_server({SLOW: slow, ECHO: echo}) as server,
        gateway(settings({"lab": {"protocol": "otc", "url": server.url}}, auth=auth)) as running,
        console(running) as it,
    ):
        yield running, slow, it


def _bearer() -> dict[str, str]:
    return {"authorization": f"Bearer {token('ada', iss='lab')}"}


@pytest.mark.parametrize("members", [{}, {"call_id": "mine"}], ids=["without an id", "with an id"])
async def test_a_call_that_runs_is_shown_and_cancelled(members: dict[str, str]) -> None:
    async with lab() as (running, slow, it), caller(running.url, headers=_bearer()) as http:
        waiting = asyncio.create_task(call(http, SLOW, **members))
        await until(lambda: slow.begun == 1, "the call runs")
        shown = (await it.calls())[SLOW]
        assert (shown["state"], shown["backend"], shown["caller"]) == ("running", "lab", "jwt:lab:ada")
        assert (shown["call_id"], shown["version"]) == (members.get("call_id"), "1.0.0")
        assert shown["age_s"] >= 0
        assert await it.cancel(shown["id"])
        answer = await waiting
        assert failure(answer)["code"] == "cancelled"
        assert answer.headers["toolgate-call-id"]
        await until(lambda: slow.left == 1, "the tool server is left")
        assert await it.calls() == {}
        assert await it.cancel(shown["id"]) is False
        assert value(await call(http, ECHO, {"n": 1})) == {"n": 1}  # over the same connection
        assert (await it.get("tools/Lab.Slow"))["outcomes"] == {"unknown": 1}


async def test_a_call_with_an_id_that_was_cancelled_stays_cancelled() -> None:
    async with lab() as (running, slow, it), caller(running.url, headers=_bearer()) as http:
        waiting = asyncio.create_task(call(http, SLOW, call_id="mine"))
        await until(lambda: slow.begun == 1, "the call runs")
        assert await it.cancel((await it.calls())[SLOW]["id"])
        await waiting
        assert failure(await call(http, SLOW, call_id="mine"))["code"] == "cancelled"
        assert slow.begun == 1


async def test_a_caller_of_mcp_is_told_too() -> None:
    async with lab() as (running, slow, it), caller(running.url, headers=_bearer()) as http:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Lab_Slow", "arguments": {}}}
        waiting = asyncio.create_task(http.post("/mcp", json=message))
        await until(lambda: slow.begun == 1, "the call runs")
        assert (await it.calls())[SLOW]["dialect"] == "mcp"
        assert await it.cancel((await it.calls())[SLOW]["id"])
        result = (await waiting).json()["result"]
        assert result["isError"] is True
        assert "cancelled" in result["content"][0]["text"]


async def test_calls_that_wait_for_a_tool_server_or_a_user_are_shown_and_cancelled() -> None:
    async with start_fleet() as fleet:
        backends = {"builds": {"protocol": "callback", "url": fleet["rap"]}}
        async with gateway(settings(backends)) as running, console(running) as it:
            later = "Prefer: respond-async"
            accepted = await call_once(running.url, "Builds.build", {"seconds": 60}, later, call_id="b")
            assert accepted.status_code == httpx.codes.ACCEPTED
            asked = await call_once(
                running.url, "Builds.deploy", {"target": "staging"}, call_id="d", context={"user_id": "u"}
            )
            assert asked.status_code == httpx.codes.BAD_REQUEST
            found = await it.calls()
            assert {name: each["state"] for name, each in found.items()} == {
                "Builds.build": "accepted", "Builds.deploy": "awaiting_user",
            }  # fmt: skip
            assert found["Builds.build"]["caller"] == "anonymous"
            assert await it.cancel(found["Builds.build"]["id"])
            assert list(await it.calls()) == ["Builds.deploy"]
            again = await call_once(running.url, "Builds.build", {"seconds": 60}, call_id="b")
            assert failure(again)["code"] == "cancelled"
