"""What operators see of a gateway: its numbers, its lines, and what tool servers get to hear."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from gateway.core.surfaces import Surface
from gateway.http.accesslog import AccessLog
from gateway.logs.lines import Lines
from tests.flow.gateways import Running, running
from tests.streams import accepting, carry
from tests.support.scraping import Samples, samples_of


async def scraped(running: Running) -> str:
    """All metrics as text."""
    transport = httpx.ASGITransport(running.gateway.admin)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", trust_env=False) as http:
        answer = await http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


async def samples(running: Running, family: str) -> Samples:
    """The samples of one counter that have counted anything, by their labels."""
    found = samples_of((await scraped(running)).encode())
    return {name.removeprefix(family): value for name, value in found.items() if name.startswith(family) and value}


class Watched:
    """A gateway whose lines are read when it is over."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.caller = running.caller
        self.lines: list[dict[str, Any]] = []
        self.text = ""


@asynccontextmanager
async def watched(text: str, surfaces: Sequence[Surface] = ()) -> AsyncIterator[Watched]:
    """Runs a gateway; what it wrote down of requests is there afterwards. At most 64 KiB of it, which a pipe holds."""
    reading, writing = os.pipe()
    lines = Lines(writing, lambda count: b"")
    try:
        async with running(text, access=AccessLog(lines), surfaces=surfaces) as gateway:
            it = Watched(gateway)
            yield it
    finally:
        lines.close()
        os.close(writing)
        with os.fdopen(reading) as stream:
            written = stream.read()
    it.text = written
    it.lines = [json.loads(line) for line in written.splitlines()]


class Tap:
    """A wire in front of a tool server; `heard` is what was sent to it on each connection."""

    def __init__(self) -> None:
        self.url = ""
        self.heard: list[bytearray] = []

    def posts(self, word: bytes) -> list[str]:
        """The heads of the POST requests whose head or body has a word, in lower case."""
        requests = [b"POST " + part for one in self.heard for part in bytes(one).split(b"POST ")[1:]]
        return [it.partition(b"\r\n\r\n")[0].decode("latin-1").lower() for it in requests if word in it]


@asynccontextmanager
async def tapped(url: str) -> AsyncIterator[Tap]:
    """Listens in on everything that is sent to a server."""
    tap, target = Tap(), urlsplit(url)

    async def listen_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tap.heard.append(note := bytearray())
        far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(carry(reader, far_writer, note), carry(far_reader, writer))

    async with accepting(listen_in) as port:
        tap.url = f"http://127.0.0.1:{port}"
        yield tap
