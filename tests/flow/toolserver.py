"""A tool server on a real socket that a test scripts, and that keeps its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.flow.caller import SCHEMAS
from tests.streams import Request, accepting, http_reply, read_request

CALL_PATHS = ("/tools/call", "/call")
FORMS = ("rfc", "otc", "oxp", "oxp-env", "lc")


class HangUp(Exception):  # noqa: N818 - what the server does, not an error
    """Ends the connection after these bytes."""

    def __init__(self, last_words: bytes = b"") -> None:
        super().__init__()
        self.last_words = last_words


Handler = Callable[[Request], Awaitable[bytes]]


def always(reply: bytes) -> Handler:
    """Answers every call with the same bytes."""

    async def handle(_received: Request) -> bytes:
        return reply

    return handle


async def silence(_received: Request) -> bytes:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


async def hang_up(_received: Request) -> bytes:
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
        self.received: list[Request] = []
        self.executions = 0
        self.connections = 0

    @property
    def lists(self) -> int:
        """How often its tools were asked for."""
        return sum(received.target == "/tools" and received.method == "GET" for received in self.received)

    @property
    def calls(self) -> list[Request]:
        """Every request that was a call, whether or not its path exists."""
        return [received for received in self.received if received.target in CALL_PATHS]

    async def echo(self, received: Request) -> bytes:
        """Returns the arguments."""
        return self.value(received, received.call["input"])

    def value(self, received: Request, value: Any) -> bytes:
        """A success in the server's own form."""
        call_id = received.call["call_id"]
        return self.result({"call_id": call_id, "success": True, "duration": 1.5, "value": value})

    def failure(self, received: Request, **error: Any) -> bytes:
        """A tool error in the server's own form."""
        return self.result({"call_id": received.call["call_id"], "success": False, "error": error})

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

    async def answer(self, received: Request) -> bytes:
        self.received.append(received)
        if received.target == "/tools" and received.method == "GET":
            return self.catalogue() if self.list_handler is None else await self.list_handler(received)
        if received.target in CALL_PATHS and received.target not in self.call_paths:
            return http_reply(404, b"Not Found")
        if received.target in CALL_PATHS:
            self.executions += 1
        return await self.handler(received)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        self.connections += 1
        try:
            while True:
                writer.write(await self.answer(await read_request(reader)))
                await writer.drain()
        except HangUp as bye:
            writer.write(bye.last_words)


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


@asynccontextmanager
async def tool_server(*tools: dict[str, Any]) -> AsyncIterator[ToolServer]:
    """Runs a tool server on a free port of loopback."""
    server = ToolServer("", *tools)
    async with accepting(server.serve) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
