"""A tool server on a real socket that does what a test tells it, and remembers what it was asked.

It speaks HTTP/1.1 by hand, because half of what it must do no library would: hang up in the middle, answer rubbish,
never answer. It shares nothing with the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.flow.caller import SCHEMAS

CALL_PATHS = ("/tools/call", "/call")
REASONS = {200: "OK", 302: "Found", 400: "Bad Request", 404: "Not Found"}  # a client reads the number only
MAX_BODY = 32 * 1024 * 1024  # the largest catalogue of the tests has 5 MiB, and nothing we are sent is larger

FORMS = ("rfc", "otc", "oxp", "oxp-env", "lc")


@dataclass(frozen=True)
class Received:
    """One request. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def request(self) -> dict[str, Any]:
        """The CallToolRequest, in whichever form it came."""
        request: dict[str, Any] = self.document.get("request", self.document)
        return request


class HangUp(Exception):  # noqa: N818 - what the server does, not an error
    """Ends the connection after these bytes."""

    def __init__(self, last_words: bytes = b"") -> None:
        super().__init__()
        self.last_words = last_words


Handler = Callable[[Received], Awaitable[bytes]]


def http_reply(status: int, body: Any, **headers: str) -> bytes:
    """A reply: bytes go as plain text, anything else as JSON. Underscores in header names stand for dashes."""
    media = "text/plain" if isinstance(body, bytes) else "application/json"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"content-type": media, "content-length": str(len(content))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = [f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}", *(f"{key}: {it}" for key, it in fields.items())]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def always(reply: bytes) -> Handler:
    """Answers every call with the same bytes."""

    async def handle(_received: Received) -> bytes:
        return reply

    return handle


async def silence(_received: Received) -> bytes:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets that event")


async def hang_up(_received: Received) -> bytes:
    """Closes the connection instead of answering."""
    raise HangUp


def tool(tool_id: str, **members: Any) -> dict[str, Any]:
    """A definition as OXP 1.0 lists it; a version may stand in the id."""
    path, _, version = tool_id.partition("@")
    return {
        "id": f"{path}@{version or '1.0.0'}",
        "name": path.replace(".", "_"),
        "description": f"The tool {path}.",
        "version": version or "1.0.0",
        "input_schema": {"type": "object"},
        "output_schema": {},
        **members,
    }


def object_of(**properties: Any) -> dict[str, Any]:
    """The schema of an object that has all of these and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class ToolServer:
    """`tools` are definitions as OXP lists them, `form` is how they and the results are written.

    `call_paths` exist, others answer 404. `executions` counts calls that reached the tool.
    """

    def __init__(self, url: str, *tools: dict[str, Any]) -> None:
        self.url = url
        self.tools = list(tools)
        self.form = "oxp"
        self.handler: Handler = self.echo
        self.list_handler: Handler | None = None
        self.call_paths = set(CALL_PATHS)
        self.received: list[Received] = []
        self.executions = 0
        self.connections = 0

    @property
    def calls(self) -> list[Received]:
        """Every request that was a call, whether or not its path exists."""
        return [received for received in self.received if received.path in CALL_PATHS]

    async def echo(self, received: Received) -> bytes:
        """Returns the arguments."""
        return self.value(received, received.request["input"])

    def value(self, received: Received, value: Any) -> bytes:
        """A success in the server's own form."""
        call_id = received.request["call_id"]
        return self.result({"call_id": call_id, "success": True, "duration": 1.5, "value": value})

    def failure(self, received: Received, **error: Any) -> bytes:
        """A tool error in the server's own form."""
        return self.result({"call_id": received.request["call_id"], "success": False, "error": error})

    def result(self, result: dict[str, Any]) -> bytes:
        match self.form:
            case "rfc":
                outcome = "value" if result["success"] else "error"
                output = {outcome: result[outcome]}
                rest = {key: it for key, it in result.items() if key != outcome}
                return http_reply(200, {"$schema": SCHEMAS["rfc"], **rest, "output": output})
            case "otc" | "oxp-env":
                return http_reply(200, {"$schema": SCHEMAS[self.form], "result": result})
            case "lc":
                return http_reply(200, {"value": None} | result)
            case _:
                return http_reply(200, result, oxp_version="1.0")

    def catalogue(self) -> bytes:
        match self.form:
            case "rfc":
                return http_reply(200, {"$schema": SCHEMAS["rfc"], "tools": [_rfc(it) for it in self.tools]})
            case "otc":
                wrapped = [it | {"input_schema": {"parameters": it["input_schema"]}} for it in self.tools]
                return http_reply(200, {"$schema": SCHEMAS["otc"], "tools": wrapped})
            case "oxp-env":
                return http_reply(200, {"$schema": SCHEMAS["oxp-env"], "items": self.tools})
            case "lc":
                return http_reply(200, self.tools)
            case _:
                return http_reply(200, {"items": self.tools}, oxp_version="1.0")

    async def answer(self, received: Received) -> bytes:
        self.received.append(received)
        if received.path == "/tools" and received.method == "GET":
            return self.catalogue() if self.list_handler is None else await self.list_handler(received)
        if received.path in CALL_PATHS and received.path not in self.call_paths:
            return http_reply(404, b"Not Found")
        if received.path in CALL_PATHS:
            self.executions += 1
        return await self.handler(received)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        self.connections += 1
        try:
            while received := await _receive(reader):
                writer.write(await self.answer(received))
                await writer.drain()
        except HangUp as bye:
            writer.write(bye.last_words)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def _rfc(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition as the RFC lists it (section 4.1)."""
    return {
        "id": definition["id"],
        "name": definition["name"],
        "description": definition["description"],
        "toolkit": {"name": definition["id"].partition(".")[0], "version": definition["version"]},
        "input": {"parameters": definition["input_schema"]},
        "output": {"available_modes": ["value", "error"], "value": definition["output_schema"]},
        **({"requirements": definition["requirements"]} if "requirements" in definition else {}),
    }


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    """The next request, or None when the other side is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")[:-2]
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(fields.get("content-length", "0"))
        assert length <= MAX_BODY
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    method, path, _ = start.split(" ")
    return Received(method, path, fields, body)


@asynccontextmanager
async def tool_server(*tools: dict[str, Any]) -> AsyncIterator[ToolServer]:
    """Runs a tool server on a free port of loopback."""
    tasks: set[asyncio.Task[None]] = set()
    server = ToolServer("", *tools)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        with suppress(asyncio.CancelledError):  # by us, below; the stream's own callback would log it as an error
            await server.serve(reader, writer)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
