"""Bodies made to cost more to read than to send: each is refused with a 4xx, quickly, and nothing is called."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from tests import oracle
from tests.support.calling import caller
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import ToolServer, definition, echo, tool_server

SIZE = 1024 * 1024 - 256  # just within the limit, so that all of it is read
QUICK_S = 3.0  # of a processor; the slowest takes 0.3 s on a slow one, and what grows with the square of a size minutes
NUMBER, APART = {"type": "integer"}, {"type": "array", "uniqueItems": True}
STRICT = {
    "type": "object",
    "properties": {"n": NUMBER, "apart": APART},
    "required": ["n"],
    "additionalProperties": False,
}


def around(value: bytes) -> bytes:
    """A call whose input is that text."""
    return b'{"request":{"tool_id":"Lab.Strict","input":%b}}' % value


def many(piece: str) -> bytes:
    """As many numbered pieces as fit into a body."""
    count = SIZE // len(piece % 100_000 + ",") - 10
    return ",".join(piece % (100_000 + number) for number in range(count)).encode()


# Python's hash of an integer is what is left by this prime: a table of them has one slot for all.
ALIKE = ",".join(str(number * (2**61 - 1)) for number in range(SIZE // 25)).encode()
BOMBS = {
    "nested arrays": b"[" * SIZE,
    "nested objects": b'{"a":' * (SIZE // 5),
    "nested arrays that end": around(b'{"n":' + b"[" * (SIZE // 3) + b"]" * (SIZE // 3) + b"}"),
    "nesting below what crashes parsers": around(b'{"n":' + b"[" * 900 + b"]" * 900 + b"}"),
    "a huge integer": around(b'{"n":' + b"9" * (SIZE - 100) + b"}"),
    "a huge exponent": around(b'{"n":1e' + b"9" * (SIZE - 100) + b"}"),
    "many digits after the point": around(b'{"n":0.' + b"1" * (SIZE - 100) + b"}"),
    "many unknown parameters": around(b"{" + many('"%d":0') + b"}"),
    "many items to tell apart": around(b'{"apart":[' + many("%d") + b"]}"),
    "many objects to tell apart": around(b'{"apart":[' + many('{"a":{"b":%d}}') + b"]}"),
    "integers that Python hashes to zero": around(b'{"apart":[%b]}' % ALIKE),
    "many copies of one member": b'{"request":{"tool_id":"Lab.Strict","input":{'
    + b'"n":"",' * (SIZE // 8)
    + b'"n":""}}}',
    "many secrets of no use": b'{"request":{"tool_id":"Lab.Strict","context":{"secrets":['
    + many('{"id":"%d","value":""}')
    + b"]}}}",
    "a huge string": around(b'{"n":"' + b"x" * (SIZE - 100) + b'"}'),
    "a string of escapes": around(b'{"n":"' + b"\\u0000" * (SIZE // 7) + b'"}'),
    "a huge tool id": b'{"request":{"tool_id":"Lab.' + b"a" * (SIZE - 100) + b'"}}',
    "a tool id of many versions": b'{"request":{"tool_id":"Lab.Strict@' + b"1." * (SIZE // 3) + b'"}}',
    "a version of many digits": b'{"request":{"tool_id":"Lab.Strict@' + b"9" * (SIZE - 100) + b'"}}',
    "a huge call id": b'{"request":{"tool_id":"Lab.Strict","call_id":"' + b"c" * (SIZE - 100) + b'"}}',
    "a lone surrogate": around(b'{"n":"\\ud800"}'),
    "bad UTF-8": around(b'{"n":"\xff"}'),
    "not a number": around(b'{"n":NaN}'),
    "an infinite number": around(b'{"n":-Infinity}'),
    "UTF-16": around(b"{}").decode().encode("utf-16"),
}


# These are JSON and calls; it is the tool's own schema that they break.
READABLE = {
    "many digits after the point",
    "many unknown parameters",
    "many items to tell apart",
    "many objects to tell apart",
    "integers that Python hashes to zero",
    "many copies of one member",
    "a huge string",
    "a string of escapes",
}


@pytest.fixture(scope="module")
async def lab() -> AsyncIterator[ToolServer]:
    definitions = [definition("Lab.Strict", input_schema={"parameters": STRICT}), definition("Lab.Echo")]
    async with tool_server({"Lab.Strict": echo, "Lab.Echo": echo}, definitions) as server:
        yield server


@pytest.fixture(scope="module")
async def running(lab: ToolServer) -> AsyncIterator[GatewayProcess]:
    async with gateway(settings({"lab": {"protocol": "otc", "url": lab.url}})) as running:
        yield running


@pytest.fixture(scope="module")
async def http(running: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with caller(running.url) as http:
        yield http


@pytest.mark.anyio
@pytest.mark.parametrize("what", BOMBS)
async def test_a_bomb_is_refused_quickly_and_briefly(
    running: GatewayProcess, http: httpx.AsyncClient, lab: ToolServer, what: str
) -> None:
    body = BOMBS[what]
    assert len(body) <= SIZE + 256
    used = running.processor_s()
    response = await http.post("/otc/tools/call", content=body, headers={"Content-Type": "application/json"})
    assert running.processor_s() - used < QUICK_S
    assert response.status_code == (422 if what in READABLE else 400)
    oracle.check("otc", "call", response.status_code, response.headers, response.content)
    assert len(response.content) < 64 * 1024, "a refusal of a megabyte should not be as long"
    assert lab.calls("Lab.Strict") == []


@pytest.mark.anyio
async def test_a_compressed_bomb_is_never_unpacked(
    running: GatewayProcess, http: httpx.AsyncClient, lab: ToolServer
) -> None:
    packed = gzip.compress(b" " * (100 * SIZE), 1)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    used = running.processor_s()
    response = await http.post("/otc/tools/call", content=packed, headers=headers)
    assert running.processor_s() - used < QUICK_S
    assert response.status_code == 415
    oracle.check("otc", "call", response.status_code, response.headers, response.content)
    assert lab.calls("Lab.Strict") == []
