"""A demonstration tool server that speaks MCP over streamable HTTP: `python -m gateway.demo.mcp_server`.

Of either era: revision 2026-07-28, in which each request says what it speaks, and those before it, which begin with
`initialize`. No sessions. One tool returns an object, one an image, one takes long and tells how far it is.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Context, DemoTool, Json, JsonObject, NotRunError, Toolbox, object_schema

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PREFIX = "io.modelcontextprotocol/"
TOOLKIT = "Studio"  # only here: MCP names tools alone, and who asks for them names the toolkit
SERVER = {"name": "demo-studio", "version": "1.0.0"}
OWN_PAGES = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?")
SIDE = 16  # pixels of a swatch
MAX_SECONDS = 60

SHADES = {"lighter": 0.4, "light": 0.2, "dark": -0.2, "darker": -0.4}
COLOUR: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{6}$", "description": "As rrggbb, in small letters."}

report: ContextVar[Callable[[int, int], None]] = ContextVar("report", default=lambda done, total: None)


class DemoRpcError(Exception):
    """A request that is refused: an error of JSON-RPC, and its status in the modern revision."""

    def __init__(self, code: int, message: str, *, status: int = 400, **data: Json) -> None:
        super().__init__(message)
        self.status = status
        self.error: JsonObject = {"code": code, "message": message, **({"data": data} if data else {})}


async def palette(arguments: JsonObject, _context: Context) -> Json:
    red, green, blue = bytes.fromhex(arguments["colour"])
    shades = {}
    for name, change in SHADES.items():
        towards = 255 if change > 0 else 0
        mixed = [round(part + (towards - part) * abs(change)) for part in (red, green, blue)]
        shades[name] = bytes(mixed).hex()
    return {"base": arguments["colour"], "shades": shades}


async def swatch(arguments: JsonObject, _context: Context) -> Json:
    """Blocks of content, not a value: MCP alone has images."""
    image = {"type": "image", "data": b64encode(_png(bytes.fromhex(arguments["colour"]))).decode()}
    return [{"type": "text", "text": f"A square of {arguments['colour']}."}, {**image, "mimeType": "image/png"}]


def _png(pixel: bytes) -> bytes:
    """A square of one colour (PNG, third edition)."""
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    pieces = {b"IHDR": header, b"IDAT": zlib.compress((b"\0" + pixel * SIDE) * SIDE), b"IEND": b""}
    chunks = [(kind + data, len(data)) for kind, data in pieces.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", size) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk, size in chunks
    )


async def render(arguments: JsonObject, _context: Context) -> Json:
    seconds = int(arguments["seconds"])
    for second in range(seconds):
        report.get()(second, seconds)
        await asyncio.sleep(1)
    return {"frames": seconds * 25}


def tools() -> list[DemoTool]:
    """Everything the server offers; without an output schema a tool returns blocks."""
    hexed, version = object_schema({"colour": COLOUR}, "colour"), (1, 0, 0)
    shades = object_schema({"base": COLOUR, "shades": {"type": "object"}}, "base", "shades")
    frames = object_schema({"frames": {"type": "integer"}}, "frames")
    seconds = object_schema({"seconds": {"type": "integer", "minimum": 0, "maximum": MAX_SECONDS}}, "seconds")
    return [
        DemoTool(f"{TOOLKIT}.palette", version, "Mixes lighter and darker shades of a colour.", hexed, shades, palette),
        DemoTool(f"{TOOLKIT}.swatch", version, "Paints a square of a colour.", hexed, None, swatch),
        DemoTool(f"{TOOLKIT}.render", version, "Renders a film, a second for each second.", seconds, frames, render),
    ]


class McpServer:
    """One endpoint; every request stands for itself."""

    def __init__(self, site: Site, toolbox: Toolbox, tools: list[DemoTool]) -> None:
        self._site = site
        self._toolbox = toolbox
        self._tools = {tool.id.partition(".")[2]: tool for tool in tools}

    async def answer(self, request: Request) -> Response:
        self._site.admit(request)
        if not is_from_here(request):
            return _reply(None, DemoRpcError(-32600, "Pages of other origins may not call"), 403)
        message = decode(await read_body(request))
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _reply(None, DemoRpcError(-32600, "The body must be one message of JSON-RPC 2.0"))
        id_, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if id_ is None:
            return Response(status_code=202)
        if not isinstance(method, str) or not isinstance(params, dict) or not isinstance(params.get("_meta", {}), dict):
            return _reply(id_, DemoRpcError(-32600, "It is not a request of JSON-RPC 2.0"))
        meta = params.get("_meta", {})
        is_modern = f"{PREFIX}protocolVersion" in meta or request.headers.get("mcp-protocol-version") == MODERN
        try:
            if is_modern:
                check_modern(request, method, params, meta)
            if method == "tools/call":
                if params.get("name") not in self._tools:
                    raise DemoRpcError(-32602, "Unknown tool")
                result = self._run(self._tools[params["name"]], params.get("arguments") or {})
                if "progressToken" in meta and "text/event-stream" in request.headers.get("accept", ""):
                    return StreamingResponse(events(id_, meta["progressToken"], result), media_type="text/event-stream")
                return _reply(id_, await result)
            return _reply(id_, self._result(method, params, is_modern))
        except DemoRpcError as refused:
            return _reply(id_, refused, refused.status if is_modern else 200)

    def _result(self, method: str, params: JsonObject, is_modern: bool) -> JsonObject:
        capabilities: JsonObject = {"tools": {}}
        if method == "tools/list":
            return {"tools": [definition(name, tool) for name, tool in self._tools.items()], **cacheable()}
        if is_modern and method == "server/discover":
            about: JsonObject = {"supportedVersions": [MODERN], "capabilities": capabilities, **cacheable()}
            return about | {"_meta": {f"{PREFIX}serverInfo": SERVER}}
        if not is_modern and method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in LEGACY else LEGACY[0]
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": SERVER}
        if not is_modern and method == "ping":
            return {}
        raise DemoRpcError(-32601, "Method not found", status=404)

    async def _run(self, tool: DemoTool, arguments: JsonObject) -> JsonObject:
        try:
            outcome = await self._toolbox.call({"tool_id": tool.id, "input": arguments})
        except NotRunError as refused:  # bad arguments are for the model to mend (2025-11-25, Error Handling)
            problems = [f"{name}: {problem}" for name, problem in refused.body.get("parameter_errors", {}).items()]
            text = "\n".join([refused.body["message"], *problems])
            return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}
        value = outcome["value"]
        if tool.output_schema is None:
            return {"resultType": "complete", "content": value}
        content = [{"type": "text", "text": json.dumps(value)}]
        return {"resultType": "complete", "content": content, "structuredContent": value}


def is_from_here(request: Request) -> bool:
    """Whether a request is of no page, or of one of this machine: a page may have its own name lead here (Security)."""
    origin = request.headers.get("origin")
    return origin is None or OWN_PAGES.fullmatch(origin) is not None


def check_modern(request: Request, method: str, params: JsonObject, meta: JsonObject) -> None:
    """Raises RpcError for a request that lacks what each has, or whose headers are not those of its body."""
    for member in ("protocolVersion", "clientCapabilities"):
        if PREFIX + member not in meta:
            raise DemoRpcError(-32602, f"params._meta lacks {PREFIX}{member}")
    version = meta[f"{PREFIX}protocolVersion"]
    expected = {"mcp-protocol-version": version, "mcp-method": method}
    if method == "tools/call":
        expected["mcp-name"] = params.get("name")
    for name, value in expected.items():
        if request.headers.get(name) != value:
            raise DemoRpcError(-32020, f"{name} is not what the body says")
    if version != MODERN:
        raise DemoRpcError(-32022, "Unsupported protocol version", supported=[MODERN], requested=version)


def definition(name: str, tool: DemoTool) -> JsonObject:
    """A tool as MCP lists it."""
    listed = {"name": name, "description": tool.description, "inputSchema": tool.input_schema}
    return listed if tool.output_schema is None else {**listed, "outputSchema": tool.output_schema}


def cacheable() -> JsonObject:
    """What modern lists say about themselves; legacy callers pass over it."""
    return {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}


async def events(id_: Json, token: Json, result: Json) -> AsyncIterator[bytes]:
    """The stream of a call: how far it is, then its response."""
    told: asyncio.Queue[JsonObject | None] = asyncio.Queue()

    def tell(done: int, total: int) -> None:
        progress = {"progressToken": token, "progress": done, "total": total}
        told.put_nowait({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})

    report.set(tell)
    running = asyncio.ensure_future(result)
    running.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (message := await told.get()) is not None:
            yield b"event: message\ndata: %b\n\n" % json.dumps(message).encode()
        message = {"jsonrpc": "2.0", "id": id_, "result": running.result()}
        yield b"event: message\ndata: %b\n\n" % json.dumps(message).encode()
    finally:
        running.cancel()


def _reply(id_: Json, said: JsonObject | DemoRpcError, status: int = 200) -> Response:
    member = {"error": said.error} if isinstance(said, DemoRpcError) else {"result": said}
    return JSONResponse({"jsonrpc": "2.0", "id": id_, **member}, status)


def build(site: Site, _options: Options) -> Starlette:
    offered = tools()
    toolbox = Toolbox(offered)
    server = McpServer(site, toolbox, offered)
    return create_app([Route("/mcp", server.answer, methods=["POST"])], lambda: toolbox.executions)


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks MCP over streamable HTTP.", default_port=9105)
