"""An ordinary HTTP API on a real socket, with an OpenAPI document; a test says what each request is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.streams import Request, accepting, read_request
from tests.support.toolserver import Exchange, Handler

DOCUMENT = "/openapi.json"
STRING: Mapping[str, Any] = {"type": "string"}


def document(paths: Any, **members: Any) -> dict[str, Any]:
    """A document of OpenAPI 3.1."""
    return {"openapi": "3.1.1", "info": {"title": "A test", "version": "1.0.0"}, "paths": paths, **members}


def operation(id_: str, *parameters: Any, schema: Any = None, **members: Any) -> dict[str, Any]:
    """An operation that is answered with JSON."""
    content = {"application/json": {"schema": {} if schema is None else schema}}
    answers = {"200": {"description": "Done.", "content": content}}
    return {"operationId": id_, "parameters": parameters, "responses": answers, **members}


def parameter(name: str, where: str = "query", schema: Any = STRING, **members: Any) -> dict[str, Any]:
    required = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, "schema": schema, **required, **members}


async def mirror(exchange: Exchange) -> None:
    """Answers with the request as it came."""
    request = exchange.request
    seen = {"method": request.method, "target": request.target, "body": request.body.decode("latin-1")}
    await exchange.reply(seen)


@dataclass
class Api:
    """Where it is, what its document says (bytes as they are), how it answers, and all that was asked."""

    url: str
    document: Any
    handler: Handler = mirror
    requests: list[Request] = field(default_factory=list)
    connections: int = 0  # open now

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def calls(self) -> list[Request]:
        """The requests of calls."""
        return [request for request in self.requests if request.target != DOCUMENT and request.method != "HEAD"]

    @property
    def fetched(self) -> list[Request]:
        """The requests for the document."""
        return [request for request in self.requests if request.target == DOCUMENT]

    @property
    def last(self) -> Request:
        return self.calls[-1]

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection until the gateway gives it up."""
        self.connections += 1
        try:
            while not writer.is_closing():
                request = await read_request(reader)
                self.requests.append(request)
                exchange = Exchange(request, reader, writer)
                if request.target == DOCUMENT:
                    await exchange.write(_whole(self.document))
                else:
                    await self.handler(exchange)
        finally:
            self.connections -= 1

    def backend(self, **keys: Any) -> dict[str, Any]:
        """The settings of a backend for it, with a toolkit `Api`."""
        usual = {"url": self.url, "document": f"{self.url}{DOCUMENT}", "toolkit": "Api"}
        return {"protocol": "openapi", **usual, **keys}


def _whole(told: Any) -> bytes:
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def http_api(paths: Any, handler: Handler = mirror, **members: Any) -> AsyncIterator[Api]:
    """Runs one on a free port; `paths` are those of its document, or the whole document as bytes."""
    api = Api("", paths if isinstance(paths, bytes) else document(paths, **members), handler)
    async with accepting(api.converse, limit=1 << 20, backlog=1024) as port:
        api.url = f"http://127.0.0.1:{port}"
        yield api
