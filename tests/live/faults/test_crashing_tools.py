"""A tool that crashes beside one that works, on one tool server: whose calls are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.live.faults.site import Site, site
from tests.streams import http_reply
from tests.support.calling import assert_unavailable, call, failure, value
from tests.support.toolserver import Exchange, definition, echo

CALLS = 40  # of each caller; the crashing tool is shut after five


async def crash(exchange: Exchange) -> None:
    await exchange.reply({"message": "Oops"}, status=500)


async def backend_of(place: Site) -> Any:
    return (await place.http.get(f"{place.running.admin_url}/health")).json()["backends"]["lab"]


async def gauge(place: Site, name: str) -> float:
    text = (await place.http.get(f"{place.running.admin_url}/metrics")).text
    return float(next(line for line in text.splitlines() if line.startswith(f'{name}{{backend="lab"}}')).split()[1])


@pytest.mark.anyio
async def test_a_tool_that_crashes_is_shut_alone() -> None:
    async with site({"Lab.Crash": crash, "Lab.Echo": echo}, breaker={"open_for": "1h"}) as place:

        async def keep_crashing() -> list[httpx.Response]:
            return [await call(place.http, "Lab.Crash") for _ in range(CALLS)]

        async def keep_calling() -> list[httpx.Response]:
            return [await call(place.http, "Lab.Echo", {"n": number}) for number in range(CALLS)]

        # All at once, and one after the other: with nothing that succeeds between the crashes.
        crashed, called = await asyncio.gather(keep_crashing(), keep_calling())
        called += await keep_calling()
        crashed += await keep_crashing()
        called += await keep_calling()

        assert [value(answer) for answer in called] == [{"n": number} for number in range(CALLS)] * 3
        for answer in crashed[:5]:
            failure(answer)
        for answer in crashed[5:]:
            assert_unavailable(answer)
            assert 3200 < int(answer.headers["retry-after"]) <= 3960
        assert len(place.lab.calls("Lab.Crash")) == 5
        described = await backend_of(place)
        assert described["breaker"] == "closed"
        assert described["replicas"][0]["tools_shut"] == {"count": 1, "first": ["Lab.Crash@1.0.0"]}
        assert await gauge(place, "toolgate_breaker_state") == 0
        assert await gauge(place, "toolgate_tools_shut") == 1


@pytest.mark.anyio
async def test_a_langchain_tool_that_raises_is_not_shut() -> None:
    """langchain-tool-server answers whatever a tool raises with 500 in plain text, wrong input first of all."""

    async def list_tools(exchange: Exchange) -> None:
        lists = {"input_schema": {"type": "object"}, "output_schema": {}}
        await exchange.reply([definition(tool) | lists for tool in tools])

    async def add(exchange: Exchange) -> None:
        number = exchange.request.call["input"].get("n")
        if not isinstance(number, int):
            await exchange.write(http_reply(500, b"Internal Server Error", content_type="text/plain"))
        else:
            await exchange.reply({"call_id": exchange.request.call["call_id"], "success": True, "value": number + 1})

    tools = {"Lab.Add": add}
    async with site(tools, listing=list_tools, breaker={"open_for": "1h"}) as place:
        for number in range(CALLS):
            failure(await call(place.http, "Lab.Add", {"n": "one"}))
            if number >= 5:
                assert value(await call(place.http, "Lab.Add", {"n": number})) == number + 1
