"""A cheap tool server that takes a call at once and calls back with its result: Reactive Agent Protocol."""

from __future__ import annotations

import json
import socket
import time
from collections import deque

from tests.bench.calls import SCHEMA, SENT_NS, TOOLKIT, VALUE, WAIT_WORD, words
from tests.bench.machine import BenchError
from tests.bench.poller import Peer, Poller, post, reply, text_after
from tests.bench.toolserver import ToolServer

WORK_NS = 2_000_000  # between acknowledgement and result, so that the one is over before the other begins
MAX_CONNECTIONS = 64  # to the gateway at a time; as many callers wait under the main load
ACK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ENDPOINT = "/invoke"
# A result is JSON within a string; the last member tells when it was sent.
TEXT_HEAD = json.dumps(json.dumps(VALUE, separators=(",", ":"))[:-1] + ",")[:-1].encode()
TEXT_TAIL = b'}"}'


class RapServer(ToolServer):
    """One toolset; every call ends with the same value and the time at which it was posted."""

    def __init__(self, poller: Poller, tools: int) -> None:
        super().__init__(poller)
        self._poller = poller
        self._manifest = reply(json.dumps(self._toolset(tools)).encode())
        self._idle: list[Peer] = []
        self._connected: list[Peer] = []
        self._unsent: deque[bytes] = deque()

    def _toolset(self, tools: int) -> dict[str, object]:
        """Toolsets, Toolset Object."""
        listed = [
            {"name": word, "description": f"Finds what {word} knows.", "inputSchema": SCHEMA} for word in words(tools)
        ]
        return {"name": TOOLKIT, "endpoint": f"http://127.0.0.1:{self.port}{ENDPOINT}", "tools": listed}

    def close(self) -> None:
        super().close()
        for peer in self._connected:
            peer.close()

    def _answer(self, peer: Peer, request: bytes) -> None:
        if request.startswith(b"GET "):
            return peer.send(self._manifest)
        peer.send(ACK)
        if not request.startswith(b"POST /invoke "):
            return None  # a notice
        if b'"operation":"' + WAIT_WORD.encode() in request:
            return self._held.append(lambda: self._call_back(request))
        return self._poller.put_off(WORK_NS, lambda: self._call_back(request))

    def _call_back(self, invocation: bytes) -> None:
        """Posts the result over a connection that is free, else over one that becomes free."""
        while self._idle:
            if (peer := self._idle.pop()).is_open:  # the gateway closes those that were idle for long
                return self._post(peer, invocation)
            self._connected.remove(peer)
        if len(self._connected) < MAX_CONNECTIONS:
            port = int(text_after(invocation, b'"callback_url":"http://127.0.0.1:').partition(b"/")[0])
            connection = socket.create_connection(("127.0.0.1", port))
            self._connected.append(Peer(self._poller, connection, self._answered))
            return self._post(self._connected[-1], invocation)
        return self._unsent.append(invocation)

    def _post(self, peer: Peer, invocation: bytes) -> None:
        """Transport, Callbacks: `tool_result`."""
        port, _, target = text_after(invocation, b'"callback_url":"http://127.0.0.1:').partition(b"/")
        call_id, group = text_after(invocation, b'"id":"'), text_after(invocation, b'"group_id":"')
        result = b'{"type":"tool_result","group_id":"%b","id":"%b","text":%b' % (group, call_id, TEXT_HEAD)
        stamp = SENT_NS.replace(b'"', b'\\"') + str(time.perf_counter_ns()).encode()
        peer.send(post(f"/{target.decode()}", int(port), result + stamp + TEXT_TAIL))

    def _answered(self, peer: Peer, answer: bytes) -> None:
        """Takes what the gateway says to a result.

        Raises:
            BenchError: it did not take it.
        """
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise BenchError(f"A callback was answered with: {answer[:300]!r}")
        if self._unsent:
            self._post(peer, self._unsent.popleft())
        else:
            self._idle.append(peer)
