"""Random schemas, values and lists: whatever a tool server and a caller send, the event loop goes on.

What is measured is the processor time of the loop's thread between two of its rounds: what it takes on a machine that
does other things as well.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from gateway.core import jsontext
from tests.flow.gateways import config, running
from tests.streams import http_reply
from tests.support.toolserver import Exchange, Handler, tool_server

LONGEST_PAUSE_S = 0.06  # 0.02 is promised; processors differ, and two hyperthreads share one
LONGEST_LISTING_S = 0.3  # 0.1 is promised
CALLS = 8
SEEDS = [pytest.param(range(1, 2), id="one"), pytest.param(range(100, 160), id="many", marks=pytest.mark.soak)]
PATTERNS = ("^[a-z]+$", r"(?=.*[A-Z])(?=.*[0-9]).{8,}", "a[ab]{5000}c", r"^(?!x)\w+(?<!y)$", "(a|ab)*c", r"\p{L}{99}")
SIZES = (0, 1, 3, 100, 20_000, 300_000)


class Fuzz(random.Random):
    """Schemas, values and texts, now and then of absurd size."""

    def size(self) -> int:
        return self.choices(SIZES, (5, 9, 9, 3, 1, 1))[0]

    def text(self) -> str:
        return self.choice(("a", "ab", "A1b", "é", "\U0001f600", "0")) * self.size()

    def scalar(self) -> Any:
        return self.choice([0, 1, -(10**20), 10**1000, 0.5, 1e300, True, None, "", "abc", self.text()])

    def value(self, depth: int = 4) -> Any:
        kind = self.randrange(6)
        if depth == 0 or kind == 0:
            return self.scalar()
        if kind == 1:
            return [self.choice([{}, [], 0, "", [[]], {"a": {}}, self.scalar()])] * self.size()
        if kind == 2:
            return {f"k{number}": self.choice([0, {}, "x"]) for number in range(self.size())}
        if kind == 3:
            return [self.value(depth - 1) for _ in range(self.randrange(4))]
        return {self.choice("abcd"): self.value(depth - 1) for _ in range(self.randrange(4))}

    def schema(self, depth: int = 4) -> Any:
        keywords = self.sample(sorted(self.keywords(depth)), self.randrange(1, 4))
        return {keyword: self.keywords(depth)[keyword] for keyword in keywords}

    def keywords(self, depth: int) -> dict[str, Any]:
        many = self.choice((1, 2, 50, 2000)) if depth == 4 else 2
        plain: dict[str, Any] = {
            "type": self.choice(["object", "array", "string", "integer", ["object", "array", "string", "null"]]),
            "pattern": self.choice(PATTERNS),
            "enum": [self.choice(["a", 1, {"a": [1] * 9}])] * many,
            "required": [f"k{number}" for number in range(many)],
            "uniqueItems": True,
            "multipleOf": 0.1,
            "maxLength": 5,
        }
        if depth == 0:
            return plain
        inner = self.schema(depth - 1)
        return plain | {
            "properties": {f"k{number}": inner for number in range(many)} | dict.fromkeys("abcd", inner),
            "additionalProperties": inner,
            "patternProperties": {self.choice(PATTERNS): inner},
            "unevaluatedProperties": False,
            "items": self.choice([inner, {"allOf": [inner] * many}, {"$ref": "#"}]),
            "anyOf": [inner] * many,
            "oneOf": [inner, {"$ref": "#"}],
            "not": inner,
            "contains": inner,
        }

    def tool(self, number: int) -> Any:
        parameters = {"type": "object"} | {key: self.schema() for key in ("additionalProperties", "properties")[:1]}
        if self.random() < 0.5:
            parameters["properties"] = {name: self.schema() for name in "abcd"}
        return {
            "id": f"Fuzz.T{number}@1.0.0",
            "name": f"T{number}",
            "description": "x" * self.choice((0, 10, 1000)),
            "version": "1.0.0",
            "input_schema": parameters,
            "output_schema": self.schema(),
        }

    def listing(self) -> tuple[bytes, int]:
        """A list, and how many tools at its beginning are meant to be called."""
        tools = [jsontext.encode(self.tool(number)) for number in range(6)]
        piece = self.choice([b"{},", b'{"a":[[],[]]},', b'"x",', b"0," * 50, jsontext.encode(self.tool(99)) + b","])
        tools.append(piece * (self.choice((1, 1000, 2_000_000)) // len(piece) + 1) + b"{}")
        return b'{"items":[%b]}' % b",".join(tools), 6


def answering(body: bytes) -> Handler:
    reply = http_reply(200, body, ("OXP-Version", "1.0"), content_type="application/json")

    async def answer(exchange: Exchange) -> None:
        await exchange.write(reply)

    return answer


class Pauses:
    """The longest processor time the loop has spent in one of its rounds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.longest_s = 0.0
        self._last = time.thread_time()
        self._next = self._loop.call_soon(self._look)

    def _look(self) -> None:
        now = time.thread_time()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        self._next = self._loop.call_later(0.0005, self._look)

    def take(self) -> float:
        """The longest until now, which is forgotten."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def stop(self) -> None:
        self._next.cancel()


async def ask(app: Any, body: bytes) -> int:
    """Calls over ASGI, with a body in one piece. Returns the status."""
    status = 0
    pieces = [{"type": "http.request", "body": body, "more_body": False}]
    scope: Mapping[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/oxp/tools/call",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"toolgate.test")],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> Any:
        return pieces.pop()

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await app(scope, receive, send)
    return status


@pytest.mark.anyio
@pytest.mark.parametrize("seeds", SEEDS)
async def test_the_loop_never_pauses_for_long(seeds: range) -> None:
    for seed in seeds:
        fuzz = Fuzz(seed)
        listing, count = fuzz.listing()
        bodies = []
        tools = {
            f"Fuzz.T{number}": answering(b'{"success":true,"value":%b}' % jsontext.encode(fuzz.value()))
            for number in range(count)
        }
        for _ in range(CALLS):
            arguments = {fuzz.choice("abcd"): fuzz.value() for _ in range(fuzz.randrange(4))}
            bodies.append(jsontext.encode({"tool_id": f"Fuzz.T{fuzz.randrange(count)}", "input": arguments}))
        with (
            start_blocking_portal() as elsewhere,  # a thread with a loop of its own
            elsewhere.wrap_async_context_manager(tool_server(tools, listing=answering(listing))) as server,
        ):
            await hold(seed, server.url, bodies)


async def hold(seed: int, url: str, bodies: list[bytes]) -> None:
    gc.collect()
    gc.freeze()
    pauses = Pauses()
    try:
        async with running(config({"fuzz": url})) as here:
            listing_s = pauses.take()
            assert listing_s < LONGEST_LISTING_S, f"seed {seed}: {listing_s * 1e3:.0f} ms for a list"
            for number, body in enumerate(bodies):
                status = await ask(here.gateway.public, body)
                call_s = pauses.take()
                assert status in (200, 400, 413, 422)
                assert call_s < LONGEST_PAUSE_S, f"seed {seed}: {call_s * 1e3:.0f} ms for call {number}"
    finally:
        pauses.stop()
        gc.unfreeze()
