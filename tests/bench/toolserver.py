"""The cheap tool servers behind most of what is measured: a constant answer for a few microseconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.bench.calls import MODERN, VALUE, WAIT_TOOL, definitions, mcp_definitions, posting_api
from tests.bench.poller import Listener, Peer, Poller, reply, text_after

FLAT = "OXP-Version: 1.0\r\n"
DOCUMENT_PATH = "/openapi.json"
DOCUMENT_ASKED = f"GET {DOCUMENT_PATH} ".encode()
VALUE_TEXT = json.dumps(VALUE, separators=(",", ":")).encode()


class ToolServer:
    """What tool servers of every protocol have: a port, and calls that are held until they are released."""

    def __init__(self, poller: Poller) -> None:
        self._held: list[Callable[[], None]] = []
        self._listener = Listener(poller, self._answer)
        self.port = self._listener.port

    @property
    def held(self) -> int:
        """How many calls wait to be answered."""
        return len(self._held)

    def release(self) -> None:
        """Answers all calls that wait."""
        held, self._held = self._held, []
        for answer in held:
            answer()

    def close(self) -> None:
        self._listener.close()

    def _answer(self, peer: Peer, request: bytes) -> None:
        """Answers one request, now or when it is released."""
        raise NotImplementedError


class OxpServer(ToolServer):
    """Answers every call with the same value: OXP 1.0, flat."""

    def __init__(self, poller: Poller, tools: int) -> None:
        super().__init__(poller)
        self._catalogue = reply(json.dumps({"items": definitions(tools)}).encode(), FLAT)

    def _answer(self, peer: Peer, request: bytes) -> None:
        if not request.startswith(b"POST /tools/call "):
            return peer.send(self._catalogue)
        # A plain proxy passes on callers' requests, and those carry no call id.
        call_id = text_after(request, b'"call_id":"', b"none")
        answer = reply(b'{"call_id":"%b","success":true,"value":%b}' % (call_id, VALUE_TEXT), FLAT)
        if WAIT_TOOL.encode() in request:
            return self._held.append(lambda: peer.send(answer))
        return peer.send(answer)


class McpServer(ToolServer):
    """Answers every call with the same value, as text too: MCP, modern and legacy, JSON alone and no sessions.

    `prefix` begins the names of its tools.
    """

    def __init__(self, poller: Poller, tools: int, *, prefix: str = "") -> None:
        super().__init__(poller)
        self._catalogue = mcp_definitions(tools, prefix)
        text = json.dumps(VALUE_TEXT.decode())
        self._value = f'"content":[{{"type":"text","text":{text}}}],"structuredContent":{VALUE_TEXT.decode()}'

    def _answer(self, peer: Peer, request: bytes) -> None:
        body = request.partition(b"\r\n\r\n")[2]
        message = json.loads(body) if body else {}
        if "id" not in message:
            status = (
                "202 Accepted" if message else "405 Method Not Allowed"
            )  # there is no stream, and no session to end
            return peer.send(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        result = self._result(message["method"], "_meta" in message.get("params", ()))
        return peer.send(reply(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{result}}}'.encode()))

    def _result(self, method: str, has_meta: bool) -> str:
        modern = '"resultType":"complete",' if has_meta else ""
        if method == "tools/call":
            return f"{{{modern}{self._value}}}"
        if method == "tools/list":
            return f'{{{modern}"ttlMs":3600000,"cacheScope":"private","tools":{json.dumps(self._catalogue)}}}'
        server = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1.0.0"}}
        if method == "initialize":
            return json.dumps({"protocolVersion": "2025-11-25", **server})
        found = {"supportedVersions": [MODERN], "ttlMs": 3600000, "cacheScope": "private"}
        return json.dumps({"resultType": "complete", **found, **server})


class RestServer(ToolServer):
    """No tool server at all: an API that answers every request with the same value, but for those of its document."""

    def __init__(self, poller: Poller, tools: int, *, describe: Callable[[int], Any] = posting_api) -> None:
        super().__init__(poller)
        self._value = reply(VALUE_TEXT)
        self._document = reply(json.dumps(describe(tools)).encode())

    def _answer(self, peer: Peer, request: bytes) -> None:
        peer.send(self._document if request.startswith(DOCUMENT_ASKED) else self._value)
