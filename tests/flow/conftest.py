"""Two of the demonstration servers as processes, a tool server to be scripted, and gateways in front of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeAlias

import pytest

from tests.flow.caller import Caller
from tests.flow.gateways import Running, config, running
from tests.flow.toolserver import ToolServer, object_of, tool, tool_server
from tests.support.processes import demo_server

Start: TypeAlias = Callable[..., Awaitable[Running]]


@pytest.fixture(scope="session")
async def fleet(anyio_backend: object) -> AsyncIterator[Mapping[str, str]]:
    """The URLs of the demonstration tool servers, `otc` and `oxp`."""
    async with demo_server("otc") as otc, demo_server("oxp") as oxp:
        yield {"otc": otc.url, "oxp": oxp.url}


@pytest.fixture(scope="session")
async def demo(fleet: Mapping[str, str]) -> AsyncIterator[Caller]:
    """A caller of a gateway in front of the fleet without authentication."""
    backends = {"office": {"protocol": "otc", "url": fleet["otc"]}, "postbox": fleet["oxp"]}
    async with running(config(backends)) as gateway:
        yield gateway.caller


@pytest.fixture
async def server() -> AsyncIterator[ToolServer]:
    """A tool server with an echo and a tool of one number."""
    numbered = tool("Count.Up", input_schema=object_of(n={"type": "integer"}))
    async with tool_server(tool("Echo.Say"), numbered) as running_server:
        yield running_server


@pytest.fixture
async def start(anyio_backend: object) -> AsyncIterator[Start]:
    """Starts gateways from the text of a configuration; all of them end with the test."""
    async with AsyncExitStack() as stack:

        async def start_one(text: str, *, wait: bool = True) -> Running:
            return await stack.enter_async_context(running(text, wait=wait))

        yield start_one


@pytest.fixture
async def caller(start: Start, server: ToolServer) -> Caller:
    """A caller of a gateway in front of `server`."""
    return (await start(config({"scripted": server.url}))).caller
