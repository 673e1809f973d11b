"""A small forward proxy on a real socket: tunnels (CONNECT) and whole URLs in first lines (RFC 9110, RFC 9112).

It shares no code with the gateway. A test maps names that only the proxy knows to ports of this machine, so that what
reaches a server behind such a name went through the proxy.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.streams import accepting, carry, http_reply

HEAD_END = b"\r\n\r\n"


@dataclass
class ForwardProxy:
    """`places` are ports by `host:port`; `login` is what it wants to see, `answer` what CONNECT gets instead."""

    port: int = 0
    places: dict[str, int] = field(default_factory=dict)
    login: str | None = None
    answer: bytes | None = None
    asked: list[str] = field(default_factory=list)  # first lines, without the version
    heads: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self.port}"

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection."""
        while True:
            head = await reader.readuntil(HEAD_END)
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.asked.append(f"{method} {target}")
            self.heads.append(head)
            if not self._admits(head):
                writer.write(http_reply(407, b"who are you?", proxy_authenticate='Basic realm="proxy"'))
                if method == "CONNECT":
                    return
                await self._skip_body(head, reader)
            elif method == "CONNECT":
                await self._tunnel(target, reader, writer)
                return
            else:
                await self._forward(method, target, head, reader, writer)

    def _admits(self, head: bytes) -> bool:
        if self.login is None:
            return True
        wanted = b"proxy-authorization: basic " + b64encode(self.login.encode()).lower()
        return wanted in head.lower()

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.answer is not None:
            writer.write(self.answer)
            await writer.drain()
            return
        if target not in self.places:
            writer.write(http_reply(502, b"no such host"))
            return
        async with _connected(self.places[target]) as (there, back):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(carry(reader, back), carry(there, writer))

    async def _forward(
        self, method: str, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Passes on one request, and the answer until its end: a connection for each."""
        parts = urlsplit(target)
        assert parts.scheme == "http"
        body = await reader.readexactly(_length(head))
        place = f"{parts.hostname}:{parts.port or 80}"
        if place not in self.places:
            writer.write(http_reply(502, b"no such host"))
            return
        lines = [line for line in head.split(b"\r\n")[1:-2] if not line.lower().startswith((b"proxy-", b"connection:"))]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        first = f"{method} {path} HTTP/1.1".encode()
        async with _connected(self.places[place]) as (there, back):
            back.write(b"\r\n".join([first, *lines, b"connection: close", b"", b""]) + body)
            await carry(there, writer)

    @staticmethod
    async def _skip_body(head: bytes, reader: asyncio.StreamReader) -> None:
        await reader.readexactly(_length(head))


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@asynccontextmanager
async def forward_proxy(**places: int) -> AsyncIterator[ForwardProxy]:
    """Runs one on a free port."""
    proxy = ForwardProxy(places=dict(places))
    async with accepting(proxy.converse) as proxy.port:
        yield proxy
