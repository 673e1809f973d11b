"""What is sent and what is expected: the tools of the benchmark, calls of 300 bytes, the callers' tokens.

Calls are OTC 1.0 (enveloped), tool servers speak other protocols, so that the gateway has to translate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import jwt

BODY_BYTES = 300
CALLERS = 8  # principals that share the load
TOKEN_LIFE_S = 900  # longer than any run
TOOLKIT = "Bench"
WAIT_WORD = "Wait"  # the tool server keeps its answers until it is told to release them
WAIT_TOOL = f"{TOOLKIT}.{WAIT_WORD}"
FRESH_ID = "0" * 16  # stands for an id that no other call has

ASKED = "a question about the weather in the mountains"  # is in every call: the echo sends it back
FOUND = "the tool server ran this call and found it"  # is in every answer of the tool server
SENT_NS = b'"sent_ns":'  # in the answers of tool servers that call back: when they did, by our own clock

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
VALUE = {"found": FOUND, "score": 0.93, "rank": 1, "tags": ["mountain", "weather", "north"], "note": "n" * 60}


@dataclass(frozen=True, slots=True)
class Script:
    """Whole requests to send. Calls that are answered at once and those that wait take turns by tool and caller.

    `keyed` are ordinary calls each of which has room for an id of its own.
    """

    ordinary: Sequence[bytes]
    waiting: Sequence[bytes]
    keyed: Sequence[bytes]
    ids: Iterator[int]

    def requests(self, *, keyed: bool = False) -> Iterator[bytes]:
        """Ordinary calls without end; `keyed` ones have ids that were never sent before."""
        return self._fresh() if keyed else cycle(self.ordinary)

    def _fresh(self) -> Iterator[bytes]:
        halves = [request.partition(FRESH_ID.encode()) for request in self.keyed]
        for head, _, tail in cycle(halves):
            yield b"%b%016x%b" % (head, next(self.ids), tail)


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


def tokens(secret: str) -> list[str]:
    """One HS256 token for each caller."""
    now = int(time.time())
    claims = [{"sub": f"caller-{number}", "iat": now, "exp": now + TOKEN_LIFE_S} for number in range(CALLERS)]
    return [jwt.encode(each, secret, algorithm="HS256") for each in claims]


def arguments_of(tool: str, call_id: str | None = None) -> dict[str, Any]:
    """Valid arguments that make the body of the call `BODY_BYTES` long."""
    arguments = {"query": ASKED, "limit": 10, "exact": True}
    missing = BODY_BYTES - len(_body(tool, arguments, call_id))
    return arguments | {"query": ASKED + "." * missing}


def request(tool: str, arguments: dict[str, Any], token: str | None, call_id: str | None = None) -> bytes:
    """A whole HTTP request that calls `tool`."""
    body = _body(tool, arguments, call_id)
    head = "POST /tools/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def script(tools: int, called: int, bearers: Sequence[str]) -> Script:
    """Calls of `called` tools, spread evenly over a catalogue of `tools`, the callers taking turns."""
    found = find_tools(tools)
    spread = [found[turn * len(found) // called] for turn in range(called)]

    def calls(tools: list[str], call_id: str | None = None) -> list[bytes]:
        turns = zip(tools, cycle(bearers), strict=False)
        return [request(tool, arguments_of(tool, call_id), bearer, call_id) for tool, bearer in turns]

    # A caller may have 1,000 calls pending, so all of them share those that wait.
    return Script(calls(spread), calls([WAIT_TOOL] * len(bearers)), calls(spread, FRESH_ID), count())


def _body(tool: str, arguments: dict[str, Any], call_id: str | None) -> bytes:
    asked: dict[str, Any] = {"tool_id": f"{tool}@1.0.0", "input": arguments}
    if call_id is not None:
        asked["call_id"] = call_id
    return json.dumps({"$schema": "otc://1.0", "request": asked}, separators=(",", ":")).encode()
