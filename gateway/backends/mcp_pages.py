"""All pages of an MCP server's list of tools, as one list."""

from __future__ import annotations

import asyncio
import hashlib
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from gateway.backends.exchange import MAX_LIST_BYTES
from gateway.dialects.lists import begin_of, mended
from gateway.errors import unavailable
from gateway.jsontext import encode
from gateway.model import JsonObject
from gateway.transport import Reply

MAX_PAGES = 1000
SHORT_BYTES = 256 * 1024  # of a page that is looked at here: 64 MiB take 0.1 s


class _Result(Struct):
    tools: Raw = Raw(b"")
    cursor: str | int | None = field(name="nextCursor", default=None)
    ttl_ms: Any = field(name="ttlMs", default=None)


class _Error(Struct):
    code: int = 0
    message: str = ""


class _Response(Struct):
    """Some servers write `null` for whichever of the two is not there."""

    result: _Result | None = None
    error: _Error | None = None


_read_response = msgspec.json.Decoder(_Response).decode


async def all_pages(ask: Callable[[JsonObject], Awaitable[Reply]]) -> Reply:
    """Asks for page after page, with these params, and joins them: one answer with `tools`, and the least `ttlMs`.

    A cursor or a page of tools that was there before ends the list. An answer of another status is returned as it is.
    Raises BACKEND_UNAVAILABLE for what is no list, and what `ask` raises.
    """
    tools: list[bytes] = []
    cursors, pages = set[str | int](), set[bytes]()
    cursor: str | int | None = None  # numbers are sent back as they are, although cursors are strings
    size, ttls_ms = 0, list[float]()
    for _ in range(MAX_PAGES):
        reply = await ask({} if cursor is None else {"cursor": cursor})
        if reply.status != 200:
            return reply
        page = _read(reply.body) if len(reply.body) <= SHORT_BYTES else await asyncio.to_thread(_read, reply.body)
        if inner := bytes(page.tools).strip()[1:-1].strip():
            digest = hashlib.sha256(inner).digest()
            if digest in pages:  # with a cursor that always is a new one, such a list would never end
                break
            pages.add(digest)
            tools.append(inner)
        if isinstance(page.ttl_ms, int | float):
            ttls_ms.append(page.ttl_ms)
        size, cursor = size + len(inner), page.cursor
        if cursor is None or cursor in cursors or size > MAX_LIST_BYTES:
            break
        cursors.add(cursor)
    return Reply(200, (), b'{"tools":[%b],"ttlMs":%b}' % (b",".join(tools), encode(min(ttls_ms, default=None))))


def _read(body: bytes) -> _Result:
    """Raises BACKEND_UNAVAILABLE."""
    text = body.removeprefix(BOM_UTF8)
    try:
        try:
            response = _read_response(text)
        except msgspec.DecodeError:
            response = _read_response(mended(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise unavailable("its answer holds no list of tools") from exc
    if response.error is not None:
        raise unavailable(f"it answers tools/list with error {response.error.code}: {response.error.message[:200]}")
    if response.result is None or begin_of(response.result.tools) != b"[":
        raise unavailable("its answer holds no list of tools")
    return response.result
