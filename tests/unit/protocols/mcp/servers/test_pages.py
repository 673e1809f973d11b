"""Lists of MCP servers that come in pages: all of them are asked for, and none goes on for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from itertools import count
from typing import Any

import pytest

from gateway.core.errors import ErrorCode
from gateway.core.model import JsonObject
from gateway.net.client import Reply
from gateway.offload import Offload
from gateway.protocols.mcp.servers.list_page import is_page, read_page
from gateway.protocols.mcp.servers.pages import MAX_PAGES, all_pages
from tests.protocols.mcp.server_double import Talk, event, facing
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio


async def read(body: bytes) -> tuple[bytes, ...]:
    return read_page(body)


Page = Callable[[int], Any]  # the result, by the number of the request


def page(*names: Any, **members: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **members}


async def listed(result_of: Page) -> tuple[list[str], list[JsonObject], Any]:
    """The names in all pages, what was asked for, and how long they are fresh."""
    asked: list[JsonObject] = []

    async def ask(params: JsonObject) -> Reply:
        asked.append(params)
        return Reply(200, (), json.dumps({"jsonrpc": "2.0", "id": 1, "result": result_of(len(asked) - 1)}).encode())

    found = json.loads((await all_pages(ask, read)).body)
    return [tool["name"] for tool in found["tools"]], asked, found["ttlMs"]


async def test_mcp_55_all_pages_are_one_list_which_is_as_fresh_as_the_oldest() -> None:
    pages = [
        page("a", "b", nextCursor="x", ttlMs=9000),
        page(nextCursor=""),  # empty, and a cursor like any other
        page(nextCursor="z"),
        page("c", nextCursor="y", ttlMs=4000),
        page("d", nextCursor=None, ttlMs="soon"),
    ]
    names, asked, ttl_ms = await listed(pages.__getitem__)
    assert names == ["a", "b", "c", "d"]
    assert asked == [{}, *({"cursor": cursor} for cursor in ("x", "", "z", "y"))]
    assert ttl_ms == 4000


async def test_mcp_55_a_cursor_may_be_a_number_and_the_member_that_is_not_there_null() -> None:
    asked: list[JsonObject] = []

    async def ask(params: JsonObject) -> Reply:
        asked.append(params)
        result = page("a", nextCursor=7) if len(asked) == 1 else page("b", nextCursor=None)
        return Reply(200, (), json.dumps({"jsonrpc": "2.0", "id": "1", "result": result, "error": None}).encode())

    assert [tool["name"] for tool in json.loads((await all_pages(ask, read)).body)["tools"]] == ["a", "b"]
    assert asked == [{}, {"cursor": 7}]


@pytest.mark.parametrize("page_of", [{"result": None}, {}])
async def test_mcp_55_an_error_is_the_reason_whatever_stands_beside_it(page_of: JsonObject) -> None:
    async def ask(_params: JsonObject) -> Reply:
        error = {"code": -32603, "message": "Database is away"}
        return Reply(200, (), json.dumps({"jsonrpc": "2.0", "id": 1, "error": error} | page_of).encode())

    assert "error -32603: Database is away" in ((await refusal(all_pages(ask, read))).detail or "")


async def test_mcp_55_a_page_with_half_a_surrogate_pair_or_a_mark_keeps_its_tools() -> None:
    texts = iter(
        [
            b'\xef\xbb\xbf{"result": {"tools": [ {"name": "a"} ], "nextCursor": "x", "ttlMs": true}}',
            b'{"result": {"tools": [{"name": "b"}, {"name": "\\ud800"}], "ttlMs": "soon"}}',
        ]
    )

    async def ask(_params: JsonObject) -> Reply:
        return Reply(200, (), next(texts))

    body = (await all_pages(ask, read)).body
    assert body.startswith(b'{"tools":[{"name": "a"},{"name": "b"}, {"name": "')
    assert body.endswith(b'"ttlMs":null}')


def test_a_page_with_halves_of_characters_is_not_taken_for_one_that_is_read_at_once() -> None:
    """Looking for them takes 0.2 s in a list of 256 KiB."""
    assert is_page(b'{"result": {"tools": [{"name": "\\ud83d\\ude00"}]}}')
    assert not is_page(b'{"result": {"tools": [{"name": "\\ud800"}]}}')


async def test_a_long_list_is_read_in_the_child() -> None:
    """Neither its message nor its tools are looked at here; other messages of the stream are."""
    long = page(*(f"t{number}" for number in range(9_000)))
    asked: list[str] = []

    async def tell(talk: Talk) -> None:
        progress = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        await talk.stream(progress, event(talk.response(long)))

    class Watched(Offload):
        async def run(self, task: Any, *parts: bytes, **more: Any) -> tuple[bytes, ...]:
            asked.append(task.__name__)
            return await super().run(task, *parts, **more)

    async with facing("modern", others={"tools/list": tell}) as (backend, _), aclosing(Watched()) as offload:
        backend._lists = backend._reader._offload = offload
        assert len((await backend.list_tools()).tools) == 9_000
    assert asked == ["read_page", "read_tools"]


NEVER_DONE: dict[str, tuple[Page, int, int]] = {
    "the same cursor": (lambda n: page(f"t{n}", nextCursor="x"), 2, 2),
    "cursors in a circle": (lambda n: page(f"t{n}", nextCursor="xyz"[n % 3]), 4, 4),
    "the same page": (lambda n: page("t", nextCursor=str(n)), 1, 2),
    "new ones for ever": (lambda n: page(f"t{n}", nextCursor=str(n)), MAX_PAGES, MAX_PAGES),
}


@pytest.mark.parametrize(("result_of", "tools", "requests"), NEVER_DONE.values(), ids=NEVER_DONE)
async def test_mcp_55_a_list_that_never_ends_is_ended(result_of: Page, tools: int, requests: int) -> None:
    names, asked, _ = await listed(result_of)
    assert (len(names), len(asked)) == (tools, requests)
    assert len(set(names)) == tools


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"{}",
        b"null",
        b'{"result": null}',
        b'{"result": []}',
        b'{"result": {"tools": {}}}',
        b'{"result": {"tools": null}}',
        b'{"result": {"tools": [], "nextCursor": {}}}',
        b"[" * 10_000,
    ],
)
async def test_mcp_55_what_holds_no_list_is_a_refusal(body: bytes) -> None:
    async def ask(_params: JsonObject) -> Reply:
        return Reply(200, (), body)

    refused = await refusal(all_pages(ask, read))
    assert refused.code is ErrorCode.BACKEND_UNAVAILABLE
    assert "no list of tools" in (refused.detail or "")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_mcp_55_a_page_that_fails_leaves_the_list_as_it_was(era: str) -> None:
    """No half of a list is taken for the whole: the tools of the other half would vanish."""
    cursors = count()

    async def pages(talk: Talk) -> None:
        cursor = talk.message.get("params", {}).get("cursor")
        if cursor is None:
            await talk.answer(page("a", nextCursor=f"c{next(cursors)}"))
        elif cursor == "c0":
            await talk.answer(page("b"))
        elif cursor == "c1":
            await talk.fail(-32602, "Bad cursor")
        else:
            talk.hang_up()

    async with facing(era, others={"tools/list": pages}) as (backend, _):
        assert [tool.tool for tool in (await backend.list_tools()).tools] == ["crm.a", "crm.b"]
        assert "-32602: Bad cursor" in ((await refusal(backend.list_tools())).detail or "")
        assert (await refusal(backend.list_tools())).code is ErrorCode.BACKEND_UNAVAILABLE
