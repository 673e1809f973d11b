"""What is learned from tool servers: their tools, their dialect, the path they take calls at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.errors import ErrorCode
from gateway.core.model import Listing
from gateway.offload import ChildTasks
from gateway.upstream.list_reader import SHORT_BYTES
from tests.unit.net.client.scripted import Peer, Script, answering
from tests.unit.upstream.facing import INVOCATION, OK, facing, paths, refusal, reply

pytestmark = pytest.mark.anyio

TOOL = {"id": "A.B@1.0.0", "name": "A_B", "description": "", "version": "1.0.0", "input_schema": {}}


async def listed(script: Script, **settings: Any) -> Listing:
    async with facing(script, **settings) as (backend, _):
        return await backend.list_tools()


async def test_an_adapted_name_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answer = reply(200, {"items": [TOOL | {"id": "A.B", "version": "beta"}]})
    async with facing(answering(answer, answer)) as (backend, _):
        for _ in range(2):
            await backend.list_tools()
    assert [record.message for record in caplog.records] == ["a tool's name was adapted"]


UNLISTED = [reply(500, b""), reply(200, b"<html>", "text/html"), reply(200, {"items": {}}), b"rubbish\r\n\r\n"]


@pytest.mark.parametrize("answer", UNLISTED, ids=lambda item: repr(item)[:40])
async def test_a_catalogue_that_cannot_be_read_is_unavailable(answer: bytes) -> None:
    error = await refusal(listed(answering(answer)))
    assert (error.code, error.message) == (ErrorCode.BACKEND_UNAVAILABLE, "The tool is temporarily unavailable.")
    assert error.detail


LEARNED: list[tuple[bytes, Callable[[Any], bool]]] = [
    (reply(200, [TOOL]), lambda body: "request" in body and body["$schema"] == "otc://1.0"),
    (reply(200, {"items": [TOOL]}), lambda body: body["$schema"] == "urn:oxp:1.0"),
    (reply(200, {"items": [TOOL]}, oxp_version="1.0"), lambda body: "tool_id" in body),
    (reply(200, {"tools": [TOOL]}, oxp_version="1.0"), lambda body: "tool_id" in body),
    (reply(200, {"tools": [TOOL]}), lambda body: body["$schema"] == "otc://1.0"),
    (reply(200, {"tools": [TOOL | {"toolkit": {}}]}), lambda body: "ArcadeAI" in body["$schema"]),
]


@pytest.mark.parametrize(("catalogue", "fits"), LEARNED, ids=["lc", "oxp-env", "oxp", "oxp-tools", "otc", "rfc"])
async def test_the_dialect_is_learned_from_the_catalogue(catalogue: bytes, fits: Callable[[Any], bool]) -> None:
    async with facing(answering(catalogue, OK), dialect="auto") as (backend, server):
        await backend.list_tools()
        assert (await backend.call(INVOCATION)).value == 7
    assert fits(json.loads(server.requests[1].partition(b"\r\n\r\n")[2]))


async def test_a_configured_dialect_is_kept_whatever_the_catalogue_looks_like() -> None:
    async with facing(answering(reply(200, [TOOL]), OK), dialect="otc", protocol="otc") as (backend, server):
        await backend.list_tools()
        await backend.call(INVOCATION)
    assert b'"$schema":"otc://1.0"' in server.requests[1]


async def test_another_dialect_has_its_own_first_path() -> None:
    marked = {"$schema": "urn:oxp:1.0", "items": [TOOL]}
    catalogues = [reply(200, {"items": [TOOL]}, oxp_version="1.0"), reply(200, marked)]
    script = answering(catalogues[0], reply(404, b"Not Found", "text/plain"), OK, catalogues[1], OK)
    async with facing(script, dialect="auto") as (backend, server):
        for _ in range(2):
            await backend.list_tools()
            await backend.call(INVOCATION)
    assert paths(server) == ["/tools", "/tools/call", "/call", "/tools", "/tools/call"]


async def test_a_list_that_has_not_changed_is_the_very_same_listing() -> None:
    same, other = reply(200, {"items": [TOOL]}), reply(200, {"items": [TOOL | {"description": "x"}]})
    async with facing(answering(same, same, other, other)) as (backend, _):
        first = await backend.list_tools()
        assert await backend.list_tools() is first
        second = await backend.list_tools()
        assert second != first
        assert await backend.list_tools() is second


async def test_a_long_list_is_read_in_another_process() -> None:
    entries = [TOOL | {"id": f"A.B{number}", "description": "x" * 1000} for number in range(300)]
    answer = reply(200, {"items": [*entries, {"id": "A.Bad", "input_schema": 7}]})
    assert len(answer) > SHORT_BYTES
    offload = ChildTasks(memory_bytes=512 * 1024 * 1024)
    try:
        apart = await listed(answering(answer), offload=offload)
    finally:
        await offload.aclose()
    assert [tool.tool for tool in apart.tools] == [entry["id"] for entry in entries]
    assert [bad.id for bad in apart.rejected] == ["A.Bad"]


async def test_a_list_that_takes_too_much_cannot_be_had_and_the_next_can() -> None:
    """Ours: to say what is wrong with a text that is no JSON takes more memory than there is for a list."""
    bad = b'{"items":[[%b]' % b",".join([b"[1]"] * 1_000_000)
    offload = ChildTasks(memory_bytes=64 * 1024 * 1024)
    try:
        lists = iter([reply(200, bad)])

        async def script(peer: Peer) -> None:
            """Another connection may come for the second list: the first has been idle for as long as one took."""
            while True:
                await peer.request()
                await peer.send(next(lists, reply(200, {"items": [TOOL]})))

        async with facing(script, offload=offload) as (backend, _):
            error = await refusal(backend.list_tools())
            assert (error.detail or "").startswith("its list takes too long to read, or too much memory; http://")
            assert len((await backend.list_tools()).tools) == 1
    finally:
        await offload.aclose()
