"""Which tool a `tool_id` means (OTC 1.0 and OXP 1.0, Tool Version Resolution)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.gateways import config, running
from tests.flow.toolserver import ToolServer, tool, tool_server
from tests.streams import Request

pytestmark = pytest.mark.anyio

VERSIONS = ("1.0.0", "1.2.0", "2.3.4", "9.0.0", "10.0.0")


@pytest.fixture(scope="module")
async def scripted(anyio_backend: object) -> AsyncIterator[ToolServer]:
    """A tool server whose one tool, in five versions, answers which of them it is."""
    async with tool_server(*(tool(f"Map.Show@{version}") for version in VERSIONS), tool("Map.Old@1.1.0")) as server:

        async def tell(received: Request) -> bytes:
            return server.value(received, received.call["tool_id"])

        server.handler = tell
        yield server


@pytest.fixture(scope="module")
async def caller(scripted: ToolServer) -> AsyncIterator[Caller]:
    async with running(config({"scripted": scripted.url})) as gateway:
        yield gateway.caller


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        pytest.param("Map.Show", "10.0.0", id="none is the highest by number"),
        pytest.param("Map.Show@1", "1.0.0", id="@x is x.0.0 and not the highest x"),
        pytest.param("Map.Show@9", "9.0.0", id="@x of a version that is x.0.0"),
        pytest.param("Map.Show@1.2.0", "1.2.0", id="an exact version among several"),
        pytest.param("Map.Show@2.3.4", "2.3.4", id="an exact version"),
        pytest.param("Map.Show@01.0.0", "1.0.0", id="parts are integers (ours)"),
        pytest.param("Map.Show@010", "10.0.0", id="also alone (ours)"),
    ],
)
async def test_a_version_is_resolved(caller: Caller, asked: str, version: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Tool Version Resolution."""
    assert (await caller.call("otc", asked)).value == f"Map.Show@{version}"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("Map.Hide", id="an unknown tool"),
        pytest.param("Maps.Show", id="an unknown toolkit"),
        pytest.param("Map.Show@3.0.0", id="an unknown version"),
        pytest.param("Map.Show@2", id="@x without x.0.0 although x.3.4 exists"),
        pytest.param("Map.Old@1", id="@x without x.0.0 although x.1.0 exists"),
        pytest.param("Map.Show@99999999999999999999", id="a number beyond 64 bits"),
        pytest.param("map.show", id="another case (ours)"),
        pytest.param("MAP.SHOW@1", id="another case and a version (ours)"),
    ],
)
@every_dialect
async def test_a_tool_or_version_that_is_not_there_is_refused(
    caller: Caller, scripted: ToolServer, dialect: str, asked: str
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Server Errors: 400 with a message."""
    before = len(scripted.calls)
    answer = await caller.call(dialect, asked)
    assert answer.status == 400
    assert answer.message
    assert len(scripted.calls) == before
