"""A callback tool server inside the test: it calls back when the test says so, and counts what reached it.

Reactive Agent Protocol: Toolsets, Tool Invocation, Transport. Thousands of calls at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.streams import Request, accepting, http_reply, read_message, read_request

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

    async def call_back(
        self, numbers: Iterable[int], *, text: str | None = None, auth_url: str | None = None, at: str | None = None
    ) -> list[int]:
        """Posts the results for these numbers, or where their users have to authorize them.

        All go to the replica `at` this address if one is given, as behind a load balancer. Returns the statuses of the
        answers, in their order.
        """
        order = list(numbers)
        statuses: dict[int, int] = {}
        due: dict[str, list[int]] = {}
        for number in order:
            due.setdefault(at or urlsplit(self.taken[number]["callback_url"]).netloc, []).append(number)

        async def line(address: str, waiting: list[int]) -> None:
            if not waiting:
                return
            host, _, port = address.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                while waiting:
                    number = waiting.pop()
                    said = {"type": "tool_result", "text": text or json.dumps({"number": number})}
                    asked = {"type": "oauth", "auth_url": auth_url}
                    writer.write(_callback(self.taken[number], said if auth_url is None else asked))
                    async with asyncio.timeout(ANSWER_S):
                        statuses[number] = await _status(reader)
            finally:
                writer.close()

        async with asyncio.TaskGroup() as lines:
            for address, waiting in due.items():
                for _ in range(LINES):
                    lines.create_task(line(address, waiting))
        return [statuses[number] for number in order]

    async def _answer(self, request: Request) -> bytes:
        if request.method == "GET":
            tool = {"name": "work", "description": "Works.", "inputSchema": _SCHEMA}
            toolset = {"name": "Yard", "endpoint": f"{self.url}/invoke", "tools": [tool]}
            return json.dumps(toolset).encode()
        document = json.loads(request.body)
        if request.target == "/invoke":
            number = document["arguments"]["number"]
            self.taken[number] = document
            self.runs[number] += 1
            await self.acknowledges.wait()
        elif request.target == "/cancel_tool_call":
            self.cancelled.append(document["tool_call_id"])
        return b""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection until the gateway gives it up."""
        while True:
            reply = await self._answer(await read_request(reader))
            writer.write(http_reply(200, reply, content_type="application/json"))


def _callback(call: dict[str, Any], message: dict[str, Any]) -> bytes:
    address = urlsplit(call["callback_url"])
    document = {"group_id": call["group_id"], "id": call["id"], **message}
    body = json.dumps(document).encode()
    head = f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _status(reader: asyncio.StreamReader) -> int:
    first, _, _ = await read_message(reader)
    return int(first.split(" ")[1])


@asynccontextmanager
async def yard() -> AsyncIterator[Yard]:
    """Runs one on a free port."""
    tools = Yard()
    async with accepting(tools.converse, backlog=1024) as port:
        tools.url = f"http://127.0.0.1:{port}"
        yield tools
