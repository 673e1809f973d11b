"""A callback tool server inside the test: it calls back when the test says so, and counts what reached it.

Reactive Agent Protocol: Toolsets, Tool Invocation, Transport. Written on bare streams, for thousands of calls at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

WORK = "Yard.work"  # takes a number; its result is {"number": that number}
LINES = 16  # connections that call back at a time
ANSWER_S = 30.0  # for one answer to a callback, on a busy machine

_SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


class Yard:
    """`taken` holds the latest invocation for each number, `runs` how many there were.

    While `acknowledges` is not set, invocations are taken but not acknowledged.
    """

    def __init__(self) -> None:
        self.url = ""
        self.taken: dict[int, dict[str, Any]] = {}
        self.runs: Counter[int] = Counter()
        self.cancelled: list[str] = []
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()

    @property
    def ran_once(self) -> bool:
        """Whether nothing has run twice, under whatever id."""
        return set(self.runs.values()) <= {1}

    async def call_back(self, numbers: Iterable[int], *, text: str | None = None) -> list[int]:
        """Posts the results for these numbers; returns the statuses of the answers, in their order."""
        order = list(numbers)
        statuses: dict[int, int] = {}
        due: dict[str, list[int]] = {}
        for number in order:
            due.setdefault(urlsplit(self.taken[number]["callback_url"]).netloc, []).append(number)

        async def line(address: str, waiting: list[int]) -> None:
            if not waiting:
                return
            host, _, port = address.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                while waiting:
                    number = waiting.pop()
                    writer.write(_callback(self.taken[number], text or json.dumps({"number": number})))
                    async with asyncio.timeout(ANSWER_S):
                        statuses[number] = await _status(reader)
            finally:
                writer.close()

        async with asyncio.TaskGroup() as lines:
            for address, waiting in due.items():
                for _ in range(LINES):
                    lines.create_task(line(address, waiting))
        return [statuses[number] for number in order]

    async def _answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "GET":
            tool = {"name": "work", "description": "Works.", "inputSchema": _SCHEMA}
            toolset = {"name": "Yard", "endpoint": f"{self.url}/invoke", "tools": [tool]}
            return json.dumps(toolset).encode()
        document = json.loads(body)
        if path == "/invoke":
            number = document["arguments"]["number"]
            self.taken[number] = document
            self.runs[number] += 1
            await self.acknowledges.wait()
        elif path == "/cancel_tool_call":
            self.cancelled.append(document["tool_call_id"])
        return b""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection until the gateway gives it up."""
        try:
            while True:
                method, path, body = await _request(reader)
                reply = await self._answer(method, path, body)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
                writer.write(head.encode() + reply)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the gateway has hung up, or died
        finally:
            writer.close()


def _callback(call: dict[str, Any], text: str) -> bytes:
    address = urlsplit(call["callback_url"])
    document = {"type": "tool_result", "group_id": call["group_id"], "id": call["id"], "text": text}
    body = json.dumps(document).encode()
    head = f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    first, length = await _head(reader)
    method, path, _ = first.split(" ")
    return method, path, await reader.readexactly(length)


async def _status(reader: asyncio.StreamReader) -> int:
    first, length = await _head(reader)
    await reader.readexactly(length)
    return int(first.split(" ")[1])


async def _head(reader: asyncio.StreamReader) -> tuple[str, int]:
    """The first line of a message, and the length of its body."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
    lengths = [line for line in lines if line.lower().startswith("content-length:")]
    return first, int(lengths[0].partition(":")[2]) if lengths else 0


@asynccontextmanager
async def yard() -> AsyncIterator[Yard]:
    """Runs one on a free port."""
    tools = Yard()
    conversations: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.get_running_loop().create_task(tools.converse(reader, writer))
        conversations.add(conversation)
        conversation.add_done_callback(conversations.discard)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    tools.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield tools
    finally:
        listener.close()
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
