"""The caller's side: calls in OTC, every answer judged by the oracle before a test looks at it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from tests import oracle, plainhttp

WAIT_S = 60.0  # for one answer, on a busy machine; no deadline of a gateway in these tests is longer than 30 s
WAYS = ("closes", "resets", "half-closes")  # how a caller leaves


@asynccontextmanager
async def caller(url: str, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with as many connections as it has calls."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with plainhttp.async_client(base_url=url, timeout=WAIT_S, limits=limits, **more) as http:
        yield http


async def call(http: httpx.AsyncClient, tool: str, arguments: Any = None, **members: Any) -> httpx.Response:
    """Calls a tool; returns the answer, which is known to be well-formed OTC."""
    request = {"tool_id": tool, "input": arguments or {}, **members}
    response = await http.post("/otc/tools/call", json={"$schema": "otc://1.0", "request": request})
    oracle.check("otc", "call", response.status_code, response.headers, response.content)
    return response


def result(response: httpx.Response) -> dict[str, Any]:
    """The result of a call that got through."""
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()["result"]
    return document


def value(response: httpx.Response) -> Any:
    """What a tool returned."""
    outcome = result(response)
    assert outcome["success"] is True, outcome
    return outcome["value"]


def failure(response: httpx.Response) -> dict[str, Any]:
    """How a call failed after it got through; nothing here may be repeated by a caller unasked."""
    outcome = result(response)
    assert outcome["success"] is False, outcome
    error: dict[str, Any] = outcome["error"]
    assert error["can_retry"] is False
    return error


def assert_unavailable(response: httpx.Response) -> None:
    """The refusal of a call that certainly did not run: come back later."""
    assert response.status_code == 400, response.text
    assert response.json()["message"] == "The tool is temporarily unavailable."
    assert int(response.headers["retry-after"]) >= 1


def encoded_call(tool: str, arguments: Any = None, *lines: str, **members: Any) -> bytes:
    """A whole request with further header lines, for callers that write bytes."""
    body = json.dumps({"request": {"tool_id": tool, "input": arguments or {}, **members}}).encode()
    head = ["POST /otc/tools/call HTTP/1.1", "Host: gateway", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a bare connection to a gateway."""
    parts = httpx.URL(url)
    return await asyncio.open_connection(parts.host, parts.port)


def leave(writer: asyncio.StreamWriter, way: str) -> None:
    """Gives a call up in one of the `WAYS`."""
    match way:
        case "closes":
            writer.close()
        case "resets":
            writer.transport.abort()
        case _:
            writer.write_eof()


async def call_once(url: str, tool: str, arguments: Any = None, *more: str, **members: Any) -> httpx.Response:
    """Calls over a connection of its own; cheap enough to be done by hundreds at once.

    Raises ConnectionError when there is no answer at all; half an answer fails the test.
    """
    reader, writer = await connect(url)
    try:
        writer.write(encoded_call(tool, arguments, "Connection: close", *more, **members))
        async with asyncio.timeout(WAIT_S):
            answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise ConnectionResetError
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = [(name, text) for name, _, text in (line.partition(": ") for line in lines)]
    response = httpx.Response(int(first.split()[1]), headers=headers, content=body)
    oracle.check("otc", "call", response.status_code, response.headers, body)
    return response


@dataclass
class Load:
    """Callers that go on until the gateway takes no more calls."""

    call: Callable[[str, Any], Awaitable[httpx.Response]]
    numbers: Iterator[int] = field(default_factory=count)
    answered: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)

    async def keep_calling(self) -> None:
        for number in self.numbers:
            try:
                assert value(await self.call("Lab.Echo", {"n": number})) == {"n": number}
            except (httpx.TransportError, OSError):
                self.unanswered.append(number)
                return
            self.answered.append(number)
