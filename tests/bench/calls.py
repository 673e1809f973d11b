"""What is sent and what is expected: the tools of the benchmark and calls of 300 bytes, or of as many as wanted.

Calls are OTC 1.0 (enveloped) unless said otherwise; tool servers speak other protocols, so that the gateway translates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

TOOLKIT = "Bench"
WAIT_WORD = "Wait"  # the tool server answers it only when `release` is called
WAIT_TOOL = f"{TOOLKIT}.{WAIT_WORD}"
CALLED = 9  # tools: all but the one that waits of ten, as many of a large catalogue, so that only its size differs
FRESH_ID = "0" * 16  # stands for an id that no other call has

ASKED = "a question about the weather in the mountains"  # is in every call: the echo sends it back
FOUND = "the tool server ran this call and found it"  # is in every answer of the tool server
SENT_NS = b'"sent_ns":'  # in the answers of tool servers that call back: when they did, by our own clock

NOTE = {"at": 0, "kind": "observation", "text": "clear above the clouds"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 200_000},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "exact": {"type": "boolean"},
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "integer"}, "kind": {"type": "string"}, "text": {"type": "string"}},
                "required": ["at", "text"],
            },
        },
    },
    "required": ["query", "limit"],
    "additionalProperties": False,
}
VALUE = {"found": FOUND, "score": 0.93, "rank": 1, "tags": ["mountain", "weather", "north"], "note": "n" * 60}

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How callers put a call: where they post it, further header lines, and its body as JSON.

    `{name}` in a header stands for the name of the tool.
    """

    path: str
    headers: str
    body: Callable[[str, Arguments, str | None], Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How long the body of a call is; filled with one long text, or with many small values in `notes`."""

    body_bytes: int = 300
    notes: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What every answer must be like: its status, and a text it has somewhere."""

    status: int = 200
    proof: str = FOUND


def _otc(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    return {"$schema": "otc://1.0", "request": _request(tool, arguments, call_id)}


def _request(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    """CallToolRequest of OTC and OXP 1.0."""
    asked = {"tool_id": f"{tool}@1.0.0", "input": arguments}
    return asked if call_id is None else {**asked, "call_id": call_id}


def _otc_body(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    return _otc(tool, {"body": arguments}, call_id)


def _mcp(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    params = {"name": tool.replace(".", "_"), "arguments": arguments}
    return {"jsonrpc": "2.0", "id": call_id or 1, "method": "tools/call", "params": params}


def _mcp_modern(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    prefix = "io.modelcontextprotocol/"
    meta: dict[str, Any] = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}}
    if call_id is not None:
        meta["toolgate/call_id"] = call_id
    params = {"name": tool.replace(".", "_"), "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _mcp_modern_body(tool: str, arguments: Arguments, call_id: str | None) -> Any:
    return _mcp_modern(tool, {"body": arguments}, call_id)


OTC = Form("/tools/call", "", _otc)
OTC_BODY = Form("/tools/call", "", _otc_body)  # of tools whose one argument is the body of a request
OXP = Form("/tools/call", "OXP-Version: 1.0\r\n", _request)
MCP_HEADERS = "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-06-18\r\n"
MCP = Form("/mcp", MCP_HEADERS, _mcp)  # Model Context Protocol, streamable HTTP
MODERN = "2026-07-28"  # its revision without sessions
MODERN_HEADERS = (
    f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\n"
    "Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
)
MCP_MODERN = Form("/mcp", MODERN_HEADERS, _mcp_modern)
MCP_MODERN_BODY = Form("/mcp", MODERN_HEADERS, _mcp_modern_body)
SMALL = Size()


class Script:
    """Whole requests to send: of nine tools spread evenly over a catalogue of `tools`, callers taking turns."""

    def __init__(self, tools: int, bearers: Sequence[str | None], form: Form = OTC) -> None:
        found = find_tools(tools)
        called = [found[turn * len(found) // CALLED] for turn in range(CALLED)]
        turns = range(max(CALLED, len(bearers)))
        self._turns = [(called[turn % CALLED], bearers[turn % len(bearers)]) for turn in turns]
        self._bearers = bearers
        self._form = form
        self._ids = count()

    def ordinary(self, size: Size = SMALL, call_id: str | None = None) -> list[bytes]:
        """Calls that are answered at once: every tool and every caller is in one of them."""
        return [self._request(tool, bearer, call_id, size) for tool, bearer in self._turns]

    def waiting(self) -> list[bytes]:
        """Calls that wait, one of each caller: one may have 1,000 pending, so all of them share those."""
        return [self._request(WAIT_TOOL, bearer) for bearer in self._bearers]

    def requests(self, size: Size = SMALL, *, keyed: bool = False) -> Iterator[bytes]:
        """Ordinary calls without end; `keyed` ones have ids that were never sent before."""
        if not keyed:
            yield from cycle(self.ordinary(size))
        halves = [request.partition(FRESH_ID.encode()) for request in self.ordinary(size, FRESH_ID)]
        for head, _, tail in cycle(halves):
            yield b"%b%016x%b" % (head, next(self._ids), tail)

    def _request(self, tool: str, bearer: str | None, call_id: str | None = None, size: Size = SMALL) -> bytes:
        return request(tool, arguments_of(tool, call_id, size, self._form), bearer, call_id, self._form)


def find_words(tools: int) -> list[str]:
    """The tools of a catalogue of `tools` that answer at once; all of one length, however many they are."""
    return [f"Find{number:05}" for number in range(tools - 1)]


def words(tools: int) -> list[str]:
    """The whole catalogue: those, and the one that waits."""
    return [*find_words(tools), WAIT_WORD]


def find_tools(tools: int) -> list[str]:
    """The ids, without versions, of the tools that answer at once."""
    return [f"{TOOLKIT}.{word}" for word in find_words(tools)]


def definitions(tools: int) -> list[dict[str, Any]]:
    """The catalogue of an OXP tool server (OXP 1.0, ToolDefinition)."""
    return [
        {
            "id": f"{TOOLKIT}.{word}@1.0.0",
            "name": f"{TOOLKIT}_{word}",
            "description": f"Finds what {word} knows.",
            "version": "1.0.0",
            "input_schema": SCHEMA,
            "output_schema": {},
        }
        for word in words(tools)
    ]


def mcp_definitions(tools: int, prefix: str = "") -> list[dict[str, Any]]:
    """The same of an MCP server, which knows no toolkits (2026-07-28, Tool)."""
    return [
        {"name": f"{prefix}{word}", "description": f"Finds what {word} knows.", "inputSchema": SCHEMA}
        for word in find_words(tools)
    ]


def posting_api(tools: int, prefix: str = "") -> dict[str, Any]:
    """An API with an operation for each tool that answers at once, its arguments in a body (OpenAPI 3.1).

    `prefix` begins the ids of its operations.
    """
    body = {"required": True, "content": {"application/json": {"schema": SCHEMA}}}
    return _api(
        {path_of(word): {"post": _operation(f"{prefix}{word}", requestBody=body)} for word in find_words(tools)}
    )


def getting_api(tools: int) -> dict[str, Any]:
    """The same with the arguments in path and query."""
    places = {"query": "query", "limit": "path", "exact": "query"}
    parameters = [
        {"name": name, "in": place, "required": name in SCHEMA["required"], "schema": SCHEMA["properties"][name]}
        for name, place in places.items()
    ]
    paths = {
        f"{path_of(word)}/{{limit}}": {"get": _operation(word, parameters=parameters)} for word in find_words(tools)
    }
    return _api(paths)


def path_of(word: str) -> str:
    """Where the API has the operation of a tool."""
    return f"/tools/{word}"


def _operation(name: str, **takes: Any) -> dict[str, Any]:
    answers = {"200": {"description": "Found.", "content": {"application/json": {"schema": {"type": "object"}}}}}
    return {"operationId": name, "description": f"Finds what {name} knows.", **takes, "responses": answers}


def _api(paths: dict[str, Any]) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": TOOLKIT, "version": "1.0.0"}, "paths": paths}


def arguments_of(tool: str, call_id: str | None = None, size: Size = SMALL, form: Form = OTC) -> Arguments:
    """Valid arguments that make the body of the call as long as wanted."""
    arguments: Arguments = {"query": ASKED, "limit": 10, "exact": True}
    if size.notes:
        room = size.body_bytes - len(_text(form.body(tool, arguments | {"notes": []}, call_id)))
        each = len(_text(NOTE)) + 6  # a comma, and a number of up to five digits more
        arguments["notes"] = [NOTE | {"at": number} for number in range(room // each)]
    missing = size.body_bytes - len(_text(form.body(tool, arguments, call_id)))
    return arguments | {"query": ASKED + "." * missing}


def request(tool: str, arguments: Arguments, bearer: str | None, call_id: str | None = None, form: Form = OTC) -> bytes:
    """A whole HTTP request that calls `tool`."""
    body = _text(form.body(tool, arguments, call_id))
    headers = form.headers.replace("{name}", tool.replace(".", "_"))
    head = f"POST {form.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}"
    if bearer is not None:
        head += f"Authorization: Bearer {bearer}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def wrong_request(tool: str, bearer: str) -> bytes:
    """A call with an argument of the wrong type."""
    return request(tool, arguments_of(tool) | {"limit": "many"}, bearer)


def _text(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
