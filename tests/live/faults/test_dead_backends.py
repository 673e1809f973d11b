"""Tool servers that are not there when the gateway starts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.support.calling import call, caller, value
from tests.support.processes import GatewayProcess, gateway, settings, until, until_ready
from tests.support.toolserver import Exchange, echo, tool_server

READY_LIMIT_S = 10.0  # what is promised; a backend that answers nothing uses all of it
MARGIN_S = 8.0  # for a busy machine; everything that does not wait for such a backend takes a second


async def say_nothing(exchange: Exchange) -> None:
    await exchange.until_closed()


@asynccontextmanager
async def beside_a_silent_one() -> AsyncIterator[tuple[GatewayProcess, httpx.AsyncClient]]:
    """A gateway whose second tool server works, and a caller who can call it already."""
    async with tool_server({}, listing=say_nothing) as silent, tool_server({"Lab.Echo": echo}) as lab:
        backends = {"silent": {"protocol": "otc", "url": silent.url}, "lab": {"protocol": "otc", "url": lab.url}}
        async with gateway(settings(backends), ready=False) as running, caller(running.url) as http:

            async def is_known() -> bool:
                return "Retry-After" not in (await call(http, "Lab.Echo")).headers

            await until(is_known, "the other can be called", MARGIN_S)
            yield running, http


@pytest.mark.anyio
async def test_a_tool_server_that_never_answers_delays_readiness_and_no_other_tool_server() -> None:
    async with beside_a_silent_one() as (_, http):
        assert value(await call(http, "Lab.Echo", {"n": 1})) == {"n": 1}
        assert (await http.get("/health")).status_code == httpx.codes.SERVICE_UNAVAILABLE


@pytest.mark.soak  # the limit alone: tests/unit/catalogue/test_catalogue.py
@pytest.mark.anyio
async def test_a_tool_server_that_never_answers_delays_readiness_to_its_limit() -> None:
    started = time.monotonic()
    async with beside_a_silent_one() as (running, http):
        await until_ready(running, READY_LIMIT_S + MARGIN_S)
        assert time.monotonic() - started >= READY_LIMIT_S
        assert (await http.get(f"{running.admin_url}/health")).json()["backends"]["silent"]["up"] is False
