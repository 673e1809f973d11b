"""A RAP runtime that does what `toolgate-conformance client --protocol rap` asks for.

It reads TOOLGATE_KIT_*, and needs only the standard library, so that it starts at once. The events of a subscription
follow the result. Each step is a method of its own, for `bad_runtime.py` to get wrong.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ATTEMPTS = 3
PAUSE_S = 0.1
RESULT_S = 5.0
EVENT_S = 1.0  # for the next event of a subscription, which is cancelled then
NOTICE_S = 1.0
INTERRUPTED = 130
TYPES = {"tool_result", "subscription_event", "oauth", "user_choice", "view_update"}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Json = Any


class FailedError(Exception):
    """The call has no result; the message is for the user."""


class GoodRuntime:
    grace_s = 0.3  # after the result, for those that come again

    def __init__(self) -> None:
        self.url = os.environ["TOOLGATE_KIT_URL"]
        self.token = os.environ["TOOLGATE_KIT_TOKEN"]
        self.tool = os.environ["TOOLGATE_KIT_TOOL"]
        self.arguments = json.loads(os.environ["TOOLGATE_KIT_INPUT"])
        self.id = str(uuid.uuid4())
        self.group_id = str(uuid.uuid4())
        self.path = self.new_path()
        self.results: queue.Queue[str] = queue.Queue()
        self.is_done = False
        self.events: queue.Queue[Mapping[str, Json]] = queue.Queue()
        self.is_subscribed = False
        self.has_ended = False  # the subscription

    # Requests.

    def headers(self, url: str) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}

    def send(self, url: str, document: Json = None, timeout_s: float = RESULT_S) -> tuple[int, bytes]:
        """Status and body. Raises OSError without an answer."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(url, body, self.headers(url))
        try:
            with OPENER.open(request, timeout=timeout_s) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read()
        except urllib.error.URLError as exc:
            raise OSError(str(exc)) from exc

    def base(self) -> str:
        return self.url.rstrip("/")

    def toolset(self) -> Json:
        status, body = self.send(self.base() + "/.well-known/rap-toolset")
        if status != 200:
            raise FailedError(f"The toolset has status {status}.")
        return json.loads(body)

    def check(self, toolset: Json) -> None:
        if not all(isinstance(tool.get("description"), str) for tool in toolset["tools"]):
            raise FailedError("The toolset is not valid.")
        if self.tool not in [tool["name"] for tool in toolset["tools"]]:
            raise FailedError(f"There is no tool {self.tool}.")

    def invocation(self, callback_url: str) -> dict[str, Json]:
        named = {"id": self.id, "call_id": None, "group_id": self.group_id}
        return {"operation": self.tool, "arguments": self.arguments, **named, "callback_url": callback_url}

    def invoke(self, endpoint: str, callback_url: str) -> None:
        for attempt in range(ATTEMPTS):
            try:
                status, _ = self.send(endpoint, self.invocation(callback_url))
            except OSError:
                self.lost_acknowledgement(endpoint, callback_url)
                return
            if status < 300:
                return
            if not self.may_retry(status) or attempt + 1 == ATTEMPTS:
                raise FailedError(f"The call was refused with {status}.")
            time.sleep(PAUSE_S)

    def may_retry(self, status: int) -> bool:
        return status >= 500

    def lost_acknowledgement(self, endpoint: str, callback_url: str) -> None:
        """The tool may run: the callback will tell."""

    # Notices.

    def notify(self, path: str, document: Json) -> None:
        """Sends a notice, once; whether it arrives does not matter."""
        with suppress(OSError):
            self.send(self.base() + path, document, NOTICE_S)

    def cancel(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one notice is enough
        self.is_done = self.has_ended = True  # whatever comes from now on is too late
        self.notify("/cancel_tool_call", self.cancellation())

    def cancellation(self) -> Json:
        return {"thread_id": self.group_id, "tool_call_id": self.id}

    def close(self) -> None:
        self.notify("/close_thread", {"thread_id": self.group_id})

    # Callbacks.

    def new_path(self) -> str:
        return f"/callback/{secrets.token_urlsafe(24)}"

    def knows(self, path: str) -> bool:
        return path == self.path

    def receive(self, path: str, body: bytes) -> int:
        """Takes a callback; the status that answers it."""
        if not self.knows(path):
            return 404
        message = json.loads(body)
        kind = message.get("type")
        if kind not in TYPES:
            return self.unknown(message)
        if kind == "view_update":
            self.viewed(message)
        elif kind == "subscription_event":
            return self.take_event(message)
        elif not self.is_ours(message):
            return 404
        elif kind == "tool_result":
            self.is_subscribed = message.get("subscription") is True
            self.settle(self.text(message))
        elif kind == "oauth":
            self.consent(message)
        elif kind == "user_choice":
            self.choose(message)
        return 200

    def answered(self) -> None:
        """A callback has been answered."""

    def unknown(self, message: Mapping[str, Json]) -> int:
        return 400

    def viewed(self, message: Mapping[str, Json]) -> None:
        """Nothing is shown here."""

    def is_ours(self, message: Mapping[str, Json]) -> bool:
        return (message.get("id"), message.get("group_id")) == (self.id, self.group_id)

    def take_event(self, message: Mapping[str, Json]) -> int:
        """Keeps an event, also one that is before the confirmation of its subscription."""
        if not self.is_of_ours(message):
            return 404
        if not self.has_ended:
            self.has_ended = message.get("final") is True
            self.events.put(message)
        return 200

    def is_of_ours(self, event: Mapping[str, Json]) -> bool:
        return (event.get("tool_call_id"), event.get("group_id")) == (self.id, self.group_id)

    def settle(self, text: str) -> None:
        if not self.is_done:
            self.is_done = True
            self.results.put(text)

    def text(self, message: Mapping[str, Json]) -> str:
        if message.get("content"):
            return "\n".join(item["text"] for item in message["content"] if item["type"] == "text")
        return str(message["text"])

    def consent(self, message: Mapping[str, Json]) -> None:
        print(f"Open {message['auth_url']}", file=sys.stderr)

    def choose(self, message: Mapping[str, Json]) -> None:
        self.send(message["response_url"], {"id": self.id, "selected": message["default"]})

    # All of it.

    def print(self, text: str) -> None:
        if text.startswith("Error: "):
            raise FailedError(text)
        print(json.dumps(text))

    def call(self, callback_url: str) -> None:
        toolset = self.toolset()
        self.check(toolset)
        self.invoke(toolset["endpoint"], callback_url)
        try:
            self.print(self.results.get(timeout=RESULT_S))
        except queue.Empty:
            raise FailedError("There is no result.") from None
        if self.is_subscribed:
            self.follow()
        time.sleep(self.grace_s)
        while not self.results.empty():
            self.print(self.results.get())

    def follow(self) -> None:
        """Prints the events of the subscription, up to the final one; cancels it if that does not come."""
        try:
            while True:
                event = self.events.get(timeout=EVENT_S)
                self.print(event["text"])
                if event.get("final") is True:
                    return
        except queue.Empty:
            self.cancel()

    def run(self) -> int:
        server = serve(self)
        try:
            self.call(f"http://127.0.0.1:{server.server_address[1]}{self.path}")
        except FailedError as exc:
            print(exc, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            self.cancel()
            return INTERRUPTED
        finally:
            self.close()
            server.shutdown()
        return 0


def serve(runtime: GoodRuntime) -> ThreadingHTTPServer:
    """Receives callbacks."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(runtime.receive(self.path, body))
            self.send_header("Content-Length", "0")
            self.end_headers()
            runtime.answered()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


if __name__ == "__main__":
    sys.exit(GoodRuntime().run())
