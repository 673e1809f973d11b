"""Progress of servers of MCP, passed through to callers of MCP who ask for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.flow.gateways import WAIT_S, Running, config, running
from tests.protocols.mcp.requests import LEGACY, MODERN, modern, post, session
from tests.protocols.mcp.server_double import END, EVENTS, TEXT, Double, Talk, chunk, event, serving

pytestmark = pytest.mark.anyio

TELLS: Mapping[str, Any] = {"progress": 1, "total": 4, "message": "reading"}


def progress(token: Any, **told: Any) -> bytes:
    params = {"progressToken": token, **told}
    return event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


class Server:
    """Tells whoever asks how far it is, and more than that; it goes on when the test says so."""

    def __init__(self) -> None:
        self.double: Double
        self.goes_on = asyncio.Event()

    async def tell(self, talk: Talk) -> None:
        token = talk.message["params"]["_meta"].get("progressToken")
        if token is None:
            await talk.answer()
            return
        untold = [progress(token, progress=1), progress(token, progress=0.5), progress("other", progress=2)]
        odd = [progress(token, progress="far"), progress(token), progress(token, progress=3, total=[]), progress(None)]
        later = chunk(b"".join((*untold, *odd, progress(token, progress=2.5))))
        await talk.send(EVENTS + chunk(progress(token, **TELLS)))
        for piece in (later, chunk(event(talk.response(TEXT))) + END):
            await self.goes_on.wait()
            self.goes_on.clear()
            await talk.send(piece)


@pytest.fixture(params=["modern", "legacy"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """Such a server of either era."""
    it = Server()
    async with serving(request.param, it.tell) as it.double:
        yield it


@pytest.fixture
async def gateway(server: Server) -> AsyncIterator[Running]:
    backend = {"protocol": "mcp", "url": server.double.url, "toolkit": "Crm"}
    async with running(config({"crm": backend})) as it:
        yield it


def call_of(version: str, meta: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    params = {"name": "Crm_find_it", "arguments": {}, "_meta": meta}
    if version == MODERN:
        return modern("tools/call", params)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"mcp-protocol-version": version}, body


class Reader:
    """A caller in front of the application itself, who sees each piece of the answer when it is sent."""

    def __init__(self, headers: Mapping[str, str], body: Any) -> None:
        usual = {"host": "toolgate.test", "content-type": "application/json", "accept": "text/event-stream, */*"}
        lines = [(name.encode(), value.encode()) for name, value in {**usual, **headers}.items()]
        self.scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": lines, "client": ("127.0.0.1", 1)}
        self.body = json.dumps(body).encode()
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self._is_read = False

    async def receive(self) -> Any:
        if self._is_read:
            await asyncio.Event().wait()
        self._is_read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Any) -> None:
        for line in message.get("body", b"").split(b"\n"):
            if line.startswith(b"data: {"):
                self.heard.put_nowait(json.loads(line.removeprefix(b"data: ")))

    async def next(self) -> Any:
        return await asyncio.wait_for(self.heard.get(), WAIT_S)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("token", ["p", 0, "\u00e9"])
async def test_mcp_72_progress_is_passed_on_by_the_callers_token(
    server: Server, gateway: Running, version: str, token: Any
) -> None:
    """Spec: MCP, Progress: values increase, and are for a token that the caller chose."""
    began = await session(gateway.caller) if version == LEGACY else {}
    headers, body = call_of(version, {"progressToken": token})
    reader = Reader({**headers, **began}, body)
    calling = asyncio.ensure_future(gateway.gateway.public(reader.scope, reader.receive, reader.send))
    for told in (TELLS, {"progress": 2.5}):
        said = {"method": "notifications/progress", "params": {"progressToken": token, **told}}
        assert await reader.next() == {"jsonrpc": "2.0", **said}
        server.goes_on.set()
    assert (await reader.next())["result"]["content"] == TEXT["content"]
    await calling
    assert reader.heard.empty()
    assert server.double.ran[0].message["params"]["_meta"]["progressToken"] not in (token, None)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": ["p"]}, {"progressToken": "p" * 257}])
async def test_mcp_72_who_asks_for_none_is_told_none(
    server: Server, gateway: Running, version: str, meta: Mapping[str, Any]
) -> None:
    caller = gateway.caller
    headers, body = call_of(version, meta)
    answer = await post(caller, body, headers)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["content"] == TEXT["content"]
    assert (await caller.call("oxp", "Crm.find_it")).status == 200
    assert [talk for talk in server.double.ran if "progressToken" in talk.message["params"]["_meta"]] == []
    assert len(server.double.ran) == 2


@pytest.mark.parametrize("token_as", [int, str], ids=["as sent", "as a string"])
@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_mcp_72_progress_that_comes_with_the_answer_is_passed_on_before_it(version: str, token_as: type) -> None:
    async def tell(talk: Talk) -> None:
        token = token_as(talk.message["params"]["_meta"]["progressToken"])
        both = progress(token, progress=1) + progress(token, progress=4, total=4) + event(talk.response(TEXT))
        await talk.send(EVENTS + chunk(both) + END)

    async with serving("modern" if version == MODERN else "legacy", tell) as double:
        backend = {"protocol": "mcp", "url": double.url, "toolkit": "Crm"}
        async with running(config({"crm": backend})) as gateway:
            headers, body = call_of(version, {"progressToken": "p"})
            reader = Reader(headers, body)
            await gateway.gateway.public(reader.scope, reader.receive, reader.send)
            heard = [reader.heard.get_nowait() for _ in range(reader.heard.qsize())]
    assert heard[-1]["result"]["content"] == TEXT["content"]
    assert [each["params"]["progress"] for each in heard[:-1]] == [4]
