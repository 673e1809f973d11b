"""A call that fails leaves nothing behind that only the collector finds: its arguments are freed with it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.calls.execution import Execution
from gateway.core.errors import GatewayError
from gateway.core.jsontext import JsonError
from gateway.core.model import Invocation
from gateway.net.client import TransportError
from gateway.pipeline.request import Request
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import Handler, HangUp, ToolServer, always, hang_up, silence, tool
from tests.streams import Request as Received
from tests.streams import http_reply

pytestmark = pytest.mark.anyio


async def half(_received: Received) -> bytes:
    raise HangUp(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")


FAILURES: dict[str, Handler] = {
    "silent": silence,
    "hung up": hang_up,
    "half an answer": half,
    "too large": always(http_reply(200, b"x" * 100_000, content_type="application/json")),
    "no JSON": always(http_reply(200, b'{"a', content_type="application/json")),
    "a server error": always(http_reply(500, b"{}", content_type="application/json")),
}
KINDS = (Invocation, Request, Execution, GatewayError, TransportError, JsonError)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left() -> Counter[str]:
    """What calls and their errors are made of, in this process."""
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, KINDS))


@pytest.mark.parametrize("how", FAILURES)
async def test_nothing_is_left_of_a_call_that_fails(start: Start, server: ToolServer, how: str) -> None:
    server.handler = FAILURES[how]
    lab = {"protocol": "oxp", "url": server.url, "max_response": "64KiB", "breaker": {"failures": 100}}
    caller = (await start(config({"lab": lab}, [{"tools": "*", "backend": "lab", "timeout": "200ms"}]))).caller
    await caller.call("otc", "Echo.Say", {"n": 0})
    with without_collector():
        before = left()
        for _ in range(3):
            await caller.call("otc", "Echo.Say", {"n": 1})
        assert not left() - before  # what the call before had not put away yet may be gone by now


async def test_nothing_is_left_of_a_refusal_or_of_a_tool_server_that_is_gone(start: Start, server: ToolServer) -> None:
    server.tools.append(tool("Other.Tool"))
    caller = (await start(config({"lab": server.url}))).caller
    with without_collector():
        before = left()
        for _ in range(3):
            await caller.call("otc", "Echo.Missing")
            await caller.call("otc", "Echo.Say", [1])
            await caller.send("otc", "call", "POST", "/otc/tools/call", content=b'{"request"')
        assert not left() - before
