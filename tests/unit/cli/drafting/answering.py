"""A server that a test writes down as pages; what it has no page for it answers with 404."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.cli.drafting.draft import Wanted
from tests.streams import Request, accepting, http_reply, read_request

Page = bytes | Callable[[Request], bytes]
FOLDER = Path("/tmp")  # where the configuration would lie; nothing is written


def json_page(document: Any, status: int = 200, **headers: str) -> bytes:
    return http_reply(status, document, **headers)


@dataclass
class Site:
    """Its pages by path, and the requests that came."""

    pages: Mapping[str, Page]
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    def wanted(self, path: str = "", **more: Any) -> Wanted:
        return Wanted(place=self.url + path, folder=FOLDER, **more)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            self.requests.append(request)
            page = self.pages.get(request.target.partition("?")[0], http_reply(404, b"no such page"))
            writer.write(page if isinstance(page, bytes) else page(request))
            await writer.drain()


@asynccontextmanager
async def answering(pages: Mapping[str, Page]) -> AsyncIterator[Site]:
    site = Site(pages)
    async with accepting(site.converse) as port:
        site.url = f"http://127.0.0.1:{port}"
        yield site


def rpc(**results: Any) -> Callable[[Request], bytes]:
    """A page of MCP: results by method, with `_` for its slashes; all else it does not know."""

    def answer(request: Request) -> bytes:
        message = json.loads(request.body) if request.body else {}
        if "id" not in message:
            return http_reply(202, b"")
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        result = results.get(message["method"].replace("/", "_"))
        failed = {"error": {"code": -32601, "message": "Method not found"}}
        return http_reply(200, reply | (failed if result is None else {"result": result}))

    return answer


def behind(token: str, page: Page) -> Callable[[Request], bytes]:
    """A page for those who have the token."""

    def answer(request: Request) -> bytes:
        if request.header("authorization") != f"Bearer {token}":
            return http_reply(401, b"who are you?")
        return page if isinstance(page, bytes) else page(request)

    return answer
