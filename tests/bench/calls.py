"""What is sent and what is expected: the tools of the benchmark, calls of 300 bytes, the callers' tokens.

Calls are OTC 1.0 (enveloped), definitions are OXP 1.0 (flat), so that the gateway has to translate.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import jwt

BODY_BYTES = 300
CALLERS = 8  # principals that share the load
TOKEN_LIFE_S = 900  # longer than any run
WAIT_TOOL = "Bench.Wait"  # the tool server keeps its answers until it is told to release them

ASKED = "a question about the weather in the mountains"  # is in every call: the echo sends it back
FOUND = "the tool server ran this call and found it"  # is in every answer of the tool server

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 400},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "exact": {"type": "boolean"},
    },
    "required": ["query", "limit"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Script:
    """Whole requests to send: calls that are answered at once, by turns, and one that waits to be released."""

    ordinary: list[bytes]
    waiting: bytes


def find_tools(count: int) -> list[str]:
    """The tools of a catalogue of `count` that answer at once; their ids have one length, however many they are."""
    return [f"Bench.Find{number:05}" for number in range(count - 1)]


def definitions(count: int) -> list[dict[str, Any]]:
    """The catalogue of the tool server (OXP 1.0, ToolDefinition)."""
    return [
        {
            "id": f"{tool}@1.0.0",
            "name": tool.replace(".", "_"),
            "description": f"Finds what {tool} knows.",
            "version": "1.0.0",
            "input_schema": SCHEMA,
            "output_schema": {},
        }
        for tool in [*find_tools(count), WAIT_TOOL]
    ]


def tokens(secret: str) -> list[str]:
    """One HS256 token for each caller."""
    now = int(time.time())
    claims = [{"sub": f"caller-{number}", "iat": now, "exp": now + TOKEN_LIFE_S} for number in range(CALLERS)]
    return [jwt.encode(each, secret, algorithm="HS256") for each in claims]


def arguments_of(tool: str) -> dict[str, Any]:
    """Valid arguments that make the body of the call `BODY_BYTES` long."""
    arguments = {"query": ASKED, "limit": 10, "exact": True}
    missing = BODY_BYTES - len(_body(tool, arguments))
    return arguments | {"query": ASKED + "." * missing}


def request(tool: str, arguments: dict[str, Any], token: str | None) -> bytes:
    """A whole HTTP request that calls `tool`."""
    body = _body(tool, arguments)
    head = "POST /tools/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def script(tools: int, called: int, secret: str) -> Script:
    """Calls of `called` tools, spread evenly over a catalogue of `tools`, the callers taking turns."""
    bearers, found = tokens(secret), find_tools(tools)
    spread = [found[turn * len(found) // called] for turn in range(called)]
    ordinary = [request(tool, arguments_of(tool), bearers[turn % CALLERS]) for turn, tool in enumerate(spread)]
    return Script(ordinary, request(WAIT_TOOL, arguments_of(WAIT_TOOL), bearers[0]))


def _body(tool: str, arguments: dict[str, Any]) -> bytes:
    document = {"$schema": "otc://1.0", "request": {"tool_id": f"{tool}@1.0.0", "input": arguments}}
    return json.dumps(document, separators=(",", ":")).encode()
