"""All pages of an MCP server's list of tools, as one list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gateway.core.errors import unavailable
from gateway.core.jsontext import encode
from gateway.core.model import JsonObject
from gateway.net.client import Reply
from gateway.protocols.mcp.servers.list_page import decode_page
from gateway.upstream.exchange import MAX_LIST_BYTES

MAX_PAGES = 1000

ReadPage = Callable[[bytes], Awaitable[tuple[bytes, ...]]]  # as `dialects.mcp_pages.read_page`


async def all_pages(ask: Callable[[JsonObject], Awaitable[Reply]], read: ReadPage) -> Reply:
    """Asks for page after page, with these params, and joins them: one answer with `tools`, and the least `ttlMs`.

    A cursor or a page of tools that was there before ends the list. An answer of another status is returned as it is.
    Raises BACKEND_UNAVAILABLE for what is no list, and what `ask` and `read` raise.
    """
    tools: list[memoryview] = []
    cursors, pages = set[str | int](), set[str]()
    cursor: str | int | None = None
    size, ttls_ms = 0, list[float]()
    for _ in range(MAX_PAGES):
        reply = await ask({} if cursor is None else {"cursor": cursor})
        if reply.status != 200:
            return reply
        head, *texts = await read(reply.body)
        page = decode_page(head)
        if page.failure:
            raise unavailable(page.failure)
        if page.begin < page.end:
            if page.digest in pages:  # with a cursor that always is a new one, such a list would never end
                break
            pages.add(page.digest)
            tools.append(memoryview(texts[0] if texts else reply.body)[page.begin : page.end])
        if page.ttl_ms is not None:
            ttls_ms.append(page.ttl_ms)
        size, cursor = size + page.end - page.begin, page.cursor
        if cursor is None or cursor in cursors or size > MAX_LIST_BYTES:
            break
        cursors.add(cursor)
    end = b'],"ttlMs":%b}' % encode(min(ttls_ms, default=None))
    return Reply(200, (), b"".join((b'{"tools":[', *_separated(tools), end)))  # one copy, of up to 64 MiB


def _separated(pages: list[memoryview]) -> list[memoryview | bytes]:
    return [piece for page in pages for piece in (b",", page)][1:]
