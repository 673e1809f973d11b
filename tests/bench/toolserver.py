"""The cheap tool server behind everything measured: a constant OXP 1.0 (flat) answer for a few microseconds.

`python -m tests.bench.toolserver --tools N` prints `listening on http://127.0.0.1:PORT` when it is ready and
ends with its standard input. `GET /held` says how many calls of `Bench.Wait` are waiting, `POST /release`
answers them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import cast

import uvloop

from tests.bench.calls import FOUND, WAIT_TOOL, definitions

BACKLOG = 4096  # thousands of connections are opened at once when waiting calls are weighed
VALUE = {"found": FOUND, "score": 0.93, "rank": 1, "tags": ["mountain", "weather", "north"], "note": "n" * 60}
TAIL = b'","success":true,"value":' + json.dumps(VALUE, separators=(",", ":")).encode() + b"}"
CALL_ID = b'"call_id":"'


def reply(body: bytes) -> bytes:
    """A whole 200 of the flat form."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nOXP-Version: 1.0\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def message_size(data: bytes) -> int | None:
    """How long the first HTTP message in `data` is, going by its Content-Length; None while its head is open."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    fields = data[: head + 2].lower()
    length = fields.find(b"\r\ncontent-length:")
    if length < 0:
        return head + 4
    return head + 4 + int(fields[length + 17 : fields.index(b"\r\n", length + 17)])


class ToolServer:
    """What all connections share: the catalogue, made once, and the calls that wait."""

    def __init__(self, tools: int) -> None:
        self._catalogue = reply(json.dumps({"items": definitions(tools)}).encode())
        self._held: list[tuple[asyncio.WriteTransport, bytes]] = []

    def answer(self, request: bytes, transport: asyncio.WriteTransport) -> None:
        """Writes the answer to one request, now or when it is released."""
        if request.startswith(b"POST /tools/call "):
            answer = self._result(request)
            if WAIT_TOOL.encode() in request:
                self._held.append((transport, answer))
                return
            transport.write(answer)
        elif request.startswith(b"GET /tools "):
            transport.write(self._catalogue)
        elif request.startswith(b"POST /release "):
            transport.write(reply(b'{"held":%d}' % self._release()))
        else:
            transport.write(reply(b'{"held":%d}' % len(self._held)))

    def _result(self, request: bytes) -> bytes:
        # A plain proxy passes on callers' requests, and those carry no call id.
        start = request.find(CALL_ID)
        begin = start + len(CALL_ID)
        call_id = b"none" if start < 0 else request[begin : request.index(b'"', begin)]
        return reply(b'{"call_id":"' + call_id + TAIL)

    def _release(self) -> int:
        held, self._held = self._held, []
        for transport, answer in held:
            transport.write(answer)
        return len(held)


class Connection(asyncio.Protocol):
    """Cuts one connection's bytes into requests."""

    _transport: asyncio.WriteTransport

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's transports are no subclass of it

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (size := message_size(data)) is not None and size <= len(data):
            self._server.answer(data[:size], self._transport)
            data = data[size:]
        self._rest = data


async def serve(tools: int) -> None:
    """Serves on a free port until standard input ends, so that the server never outlives the benchmark."""
    loop = asyncio.get_running_loop()
    server = ToolServer(tools)
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=BACKLOG)
    async with listener:
        print(f"listening on http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, required=True, help="how many tools the catalogue lists")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(parser.parse_args().tools))


if __name__ == "__main__":
    main()
