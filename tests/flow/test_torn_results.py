"""Results that hold half a surrogate pair, as of texts that were cut: in every protocol that half becomes U+FFFD.

All of it is ours: JSON allows such escapes, and what they mean is open (RFC 8259, section 8.2).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flow.builds import builds
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import FORMS, ToolServer
from tests.protocols.mcp.requests import call
from tests.protocols.mcp.server_double import Talk, serving
from tests.streams import Request, http_reply

pytestmark = pytest.mark.anyio

TORN = '"cut \\ud83d"'  # as JSON
WHOLE = "cut \ufffd"
LINES = 120_000  # of an answer as long as a small one may be, nearly all of it escapes
SIZES = pytest.mark.parametrize(
    "size", [0, LINES, 300_000, 1_200_000], ids=["small", "many escapes", "large", "in another process"]
)


def value_of(size: int) -> tuple[Any, str, Any]:
    """Padding beside the torn text, the JSON of both, and what they become."""
    padding: Any = ["x"] * 100_000 if size > 1_000_000 else ("\n" if size == LINES else "x") * size
    return padding, f'{{"padding": {json.dumps(padding)}, "text": {TORN}}}', {"padding": padding, "text": WHOLE}


def http(body: str) -> bytes:
    return http_reply(200, body.encode(), content_type="application/json")


@pytest.mark.parametrize("form", FORMS)
async def test_of_otc_and_oxp_servers(start: Start, server: ToolServer, form: str) -> None:
    async def answer(received: Request) -> bytes:
        body = server.value(received, "HERE").partition(b"\r\n\r\n")[2]
        return http(body.decode().replace('"HERE"', TORN))

    server.form = form
    server.handler = answer
    caller = (await start(config({"scripted": {"protocol": "oxp", "url": server.url}}))).caller
    assert (await caller.call("oxp", "Echo.Say")).value == WHOLE


@SIZES
@pytest.mark.parametrize("streams", [False, True], ids=["json", "events"])
async def test_of_mcp_servers(start: Start, streams: bool, size: int) -> None:
    _, text, value = value_of(size)

    async def answer(talk: Talk) -> None:
        body = f'{{"jsonrpc":"2.0","id":{talk.id},"result":{{"content":[],"structuredContent":{text}}}}}'
        if streams:
            await talk.stream(f"data: {body}\n\n".encode())
        else:
            await talk.send(http(body))

    async with serving("modern", answer) as double:
        backend = {"protocol": "mcp", "url": double.url, "toolkit": "Far"}
        caller = (await start(config({"far": backend}))).caller
        assert (await caller.call("oxp", "Far.find_it")).value == value
        assert (await call(caller, "Far_find_it")).json()["result"]["structuredContent"] == value


@pytest.mark.parametrize("halves", [rb"\n" * LINES + rb"\ud83d", b"\xed\xa0\xbd" * 40_000], ids=["escapes", "bytes"])
async def test_of_long_messages_before_the_answer_of_an_mcp_server(start: Start, halves: bytes) -> None:
    async def answer(talk: Talk) -> None:
        log = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%b"}}' % halves
        result = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}' % talk.id
        await talk.stream(b"data: %b\n\ndata: %b\n\n" % (log, result))

    async with serving("legacy", answer) as double:
        backend = {"protocol": "mcp", "url": double.url, "toolkit": "Far"}
        caller = (await start(config({"far": backend}))).caller
        assert (await caller.call("oxp", "Far.find_it")).value == "done"


@SIZES
async def test_of_tool_servers_that_call_back(size: int) -> None:
    """In the text itself, and in the JSON inside the text."""
    padding, text, value = value_of(size)
    async with builds() as server:
        plain = f"{padding} HERE" if isinstance(padding, str) else f"{len(padding)} HERE"
        for sent, outcome in ((plain, plain.replace("HERE", WHOLE)), (text, value)):
            pending = await server.begin(outcome_id := f"k{len(sent)}")
            message = json.dumps(pending.message(text=sent)).replace("HERE", TORN[1:-1])
            assert await pending.post(message.encode()) == 200, outcome_id
            assert await pending.outcome() == outcome
