"""A callback tool server inside the test, which keeps every call and says about it what the test wants, when it wants.

Reactive Agent Protocol: Toolsets, Tool Invocation, Transport.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests import plainhttp
from tests.streams import Request, accepting, http_reply, read_request
from tests.support.processes import until

Message = dict[str, Any]


class Confidant:
    """`taken` are the invocations by operation, the latest of each; `requests` is all that reached it."""

    def __init__(self, operations: Sequence[str]) -> None:
        self.url = ""
        self.taken: dict[str, Message] = {}
        self.requests: list[Request] = []
        self._operations = operations

    async def has(self, operation: str) -> Message:
        """Waits for an invocation."""
        await until(lambda: operation in self.taken, f"{operation} is invoked")
        return self.taken[operation]

    async def says(self, operation: str, message: Message | str) -> int:
        """Calls back about the latest invocation; a text is sent as it is. Returns the status of the answer."""
        call = await self.has(operation)
        about = {"group_id": call["group_id"], "id": call["id"]}
        body = message if isinstance(message, str) else json.dumps(about | message)
        async with plainhttp.async_client() as http:
            answer = await http.post(call["callback_url"], content=body, headers={"Content-Type": "application/json"})
        return answer.status_code

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection until the gateway gives it up."""
        while True:
            request = await read_request(reader)
            self.requests.append(request)
            writer.write(http_reply(200, self._answer(request)))
            await writer.drain()

    def _answer(self, request: Request) -> Any:
        if request.method == "GET":
            schema = {"type": "object"}
            tools = [{"name": name, "description": "Keeps it.", "inputSchema": schema} for name in self._operations]
            return {"name": "Keeper", "endpoint": f"{self.url}/invoke", "tools": tools}
        if request.target == "/invoke":
            document = json.loads(request.body)
            self.taken[document["operation"]] = document
        return {}


@asynccontextmanager
async def confidant(*operations: str) -> AsyncIterator[Confidant]:
    """Runs one on a free port."""
    server = Confidant(operations)
    async with accepting(server.converse) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
