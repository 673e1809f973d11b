"""A cheap tool server that speaks RCRT: requests are posted as breadcrumbs, responses come as events of one stream."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.bench.calls import SCHEMA, VALUE, WAIT_WORD, words
from tests.bench.poller import Peer, Poller, reply, text_after
from tests.bench.toolserver import ToolServer

WORKSPACE = "workspace:tools"
OWNER_ID = "00000000-0000-0000-0000-000000000001"
AGENT_ID = "6f1c2b9e-4a0d-4e0e-9d0b-2f6f0a1b7c11"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PING_NS = 5_000_000_000
RECORD = re.compile(rb"GET /breadcrumbs/([0-9a-f-]+)/full ")
OUTPUT = json.dumps(VALUE, separators=(",", ":")).encode()


class RcrtServer(ToolServer):
    """A workspace, its runner included; every call ends with the same output. `streams` were opened so far."""

    def __init__(self, poller: Poller, tools: int) -> None:
        super().__init__(poller)
        self._poller = poller
        self._records = {_uuid(number): _tool(_uuid(number), word) for number, word in enumerate(words(tools))}
        self._listed = reply(json.dumps([_entry(record) for record in self._records.values()]).encode())
        self._stream: Peer | None = None
        self._crumbs = tools
        self.streams = 0

    def _answer(self, peer: Peer, request: bytes) -> None:
        if request.startswith(b"POST /breadcrumbs "):
            self._take(peer, request)
        elif request.startswith(b"GET /events/stream "):
            self.streams += 1
            self._stream = peer
            peer.send(STREAM_HEAD)
            self._ping(peer)
        elif request.startswith(b"POST /auth/token "):
            ends = int(time.time()) + 3600
            peer.send(reply(b'{"token":"a-token","exp":%d}' % ends))
        elif record := RECORD.match(request):
            peer.send(reply(json.dumps(self._records[record[1].decode()]).encode()))
        else:  # a list: of tools, or of responses, all of which were events
            peer.send(self._listed if b"tool.code.v1" in request else reply(b"[]"))

    def _ping(self, stream: Peer) -> None:
        """Pings the stream again and again; a real server does."""
        if stream is self._stream and stream.is_open:
            self._publish(b'{"type":"ping"}')
            self._poller.put_off(PING_NS, lambda: self._ping(stream))

    def _take(self, peer: Peer, request: bytes) -> None:
        """Stores a request, shows it on the stream and runs it."""
        crumb, self._crumbs = _uuid(self._crumbs).encode(), self._crumbs + 1
        call_id = text_after(request, b'"requestId":"')
        peer.send(reply(b'{"id":"%b"}' % crumb))
        tags = b'["tool:request","%b","gateway:%b"]' % (WORKSPACE.encode(), call_id)
        self._publish(_event(crumb, b"tool.request.v1", tags, b"{}"))
        if b'"tool":"' + WAIT_WORD.encode() in request:
            self._held.append(lambda: self._respond(call_id))
        else:
            self._respond(call_id)

    def _respond(self, call_id: bytes) -> None:
        crumb, self._crumbs = _uuid(self._crumbs).encode(), self._crumbs + 1
        tags = b'["%b","tool:response","request:%b"]' % (WORKSPACE.encode(), call_id)
        context = b'{"request_id":"%b","status":"success","output":%b}' % (call_id, OUTPUT)
        self._publish(_event(crumb, b"tool.response.v1", tags, context))

    def _publish(self, event: bytes) -> None:
        """Sends one event in one chunk."""
        if self._stream is not None:
            line = b"data: " + event + b"\n\n"
            self._stream.send(b"%x\r\n%b\r\n" % (len(line), line))


def _event(crumb: bytes, schema: bytes, tags: bytes, context: bytes) -> bytes:
    return (
        b'{"breadcrumb_id":"%b","owner_id":"%b","version":1,"tags":%b,"schema_name":"%b","context":%b,'
        b'"type":"breadcrumb.updated"}' % (crumb, OWNER_ID.encode(), tags, schema, context)
    )


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _tool(crumb: str, word: str) -> dict[str, Any]:
    """The whole record of a tool."""
    return {
        "id": crumb,
        "title": f"Tool: {word}",
        "description": f"Finds what {word} knows.",
        "semantic_version": "1.0.0",
        "schema_name": "tool.code.v1",
        "tags": ["tool", f"tool:{word}", WORKSPACE, "approved"],
        "context": {"name": word, "input_schema": SCHEMA, "output_schema": {}},
        "version": 1,
        "updated_at": "2026-01-01T00:00:00Z",
    }


def _entry(record: dict[str, Any]) -> dict[str, Any]:
    """The same as a list shows it."""
    return {key: record[key] for key in ("id", "title", "tags", "schema_name", "version", "updated_at")}
