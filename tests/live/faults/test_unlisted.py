"""Tool servers that are not there when a gateway starts, or when they are configured: their tools are not denied."""

from __future__ import annotations

import httpx
import pytest

from tests.support.calling import assert_unavailable, call, caller, value
from tests.support.changing import change
from tests.support.processes import demo_server, gateway, settings, until
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio


async def test_tools_wait_for_a_server_that_starts_later_than_the_gateway_or_is_added_to_it() -> None:
    async with tool_server({}) as before:
        port = before.port  # free from now on
    async with tool_server({"Lab.Echo": echo}) as lab:
        backends = {"lab": {"protocol": "otc", "url": lab.url}}
        both = backends | {"late": {"protocol": "otc", "url": f"http://127.0.0.1:{port}"}}
        routes = [{"tools": "Lab.*", "backend": "lab"}, {"tools": "Calculator.*", "backend": "late"}]
        with_both = settings(both, routes=routes)
        async with gateway(with_both) as running, caller(running.url) as http:
            assert_unavailable(await add(http))
            assert missing(await call(http, "Lab.Other"))
            await change(running, settings(backends, routes=routes[:1]))
            assert missing(await add(http))
            await change(running, with_both)
            assert_unavailable(await add(http))
            assert value(await call(http, "Lab.Echo", {"n": 1})) == {"n": 1}
            async with demo_server("otc", port):

                async def answers() -> bool:
                    reply = await add(http)
                    if reply.json().get("message") is None:
                        return bool(value(reply) == 5)
                    assert_unavailable(reply)
                    return False

                await until(answers, "the tool server that came late is called")
                assert missing(await call(http, "Calculator.Guess"))


async def add(http: httpx.AsyncClient) -> httpx.Response:
    """Calls a tool of the demonstration server."""
    return await call(http, "Calculator.Add", {"a": 2, "b": 3})


def missing(response: httpx.Response) -> bool:
    """Whether the answer says for good that there is no such tool."""
    assert (response.status_code, "retry-after" in response.headers) == (400, False)
    message: str = response.json()["message"]
    return message.startswith("There is no tool ")
