"""A caller of the RAP demonstration server: it invokes, and collects what is posted to its callback URLs."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.support.servers import DEADLINE_S


@dataclass
class Callback:
    """One request to the callback endpoint."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)


class Caller:
    """`answers` are the statuses of the next callbacks, 200 when there are none left."""

    def __init__(self, server: httpx.Client) -> None:
        self.server = server
        self.answers: list[int] = []
        self._received: list[Callback] = []
        self._news = threading.Condition()
        self.base_url = ""

    def receive(self, callback: Callback) -> int:
        with self._news:
            self._received.append(callback)
            self._news.notify_all()
            return self.answers.pop(0) if self.answers else 200

    def invocation(self, operation: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """An invocation with ids and a callback URL of its own."""
        call_id = uuid.uuid4().hex
        return {
            "operation": operation,
            "arguments": {} if arguments is None else arguments,
            "id": call_id,
            "call_id": None,
            "callback_url": f"{self.base_url}/callbacks/{call_id}",
            "group_id": f"group-{call_id}",
            **more,
        }

    def invoke(self, invocation: dict[str, Any]) -> httpx.Response:
        return self.server.post("/invoke", json=invocation)

    def run(self, invocation: dict[str, Any], count: int = 1) -> list[Any]:
        """Invokes, and returns the first messages that come back about it."""
        assert self.invoke(invocation).status_code == 200
        return [callback.message for callback in self.callbacks(invocation, count)]

    def callbacks(self, invocation: dict[str, Any], count: int = 1) -> list[Callback]:
        """Waits until this many callbacks have come for an invocation, whatever they say."""
        with self._news:
            complete = self._news.wait_for(lambda: len(self.so_far(invocation)) >= count, DEADLINE_S)
            assert complete, f"{len(self.so_far(invocation))} of {count} callbacks"
            return self.so_far(invocation)[:count]

    def text_of(self, operation: str, arguments: dict[str, Any] | None = None) -> str:
        (message,) = self.run(self.invocation(operation, arguments))
        assert message["type"] == "tool_result"
        return str(message["text"])

    def so_far(self, invocation: dict[str, Any]) -> list[Callback]:
        with self._news:
            return [callback for callback in self._received if invocation["id"][1:] in callback.path]


@contextmanager
def calling(server: httpx.Client) -> Iterator[Caller]:
    """A caller whose callback endpoint listens on a free port of loopback."""
    caller = Caller(server)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = caller.receive(Callback(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{caller.base_url}{self.path}/redirected")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library has it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        caller.base_url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield caller
        listener.shutdown()
        thread.join()
