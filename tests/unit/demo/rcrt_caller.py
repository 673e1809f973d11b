"""A caller of the RCRT demonstration server: it mints a token, files requests, and listens to the event stream."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests import plainhttp
from tests.unit.demo.conftest import DEADLINE_S, connected

OWNER_ID = "00000000-0000-0000-0000-000000000001"
AGENT_ID = "6f1c2b9e-4a0d-4e0e-9d0b-2f6f0a1b7c11"
REQUEST_TAGS = ["tool:request", "workspace:tools"]


class Listener:
    """What one event stream has said so far."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ended: str | None = None
        self._news = threading.Condition()

    def read(self, response: httpx.Response) -> None:
        """Reads until the stream ends, `clean` or `broken`."""
        try:
            for chunk in response.iter_raw():
                with self._news:
                    self.chunks.append(chunk)
                    self._news.notify_all()
            ended = "clean"
        except httpx.TransportError:
            ended = "broken"
        with self._news:
            self.ended = ended
            self._news.notify_all()

    @property
    def lines(self) -> list[str]:
        return b"".join(self.chunks).decode(errors="replace").split("\n\n")[:-1]

    @property
    def events(self) -> list[Any]:
        return [json.loads(line.removeprefix("data:")) for line in self.lines]

    def wait(self, condition: Callable[[Listener], bool]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: condition(self), DEADLINE_S), "the stream did not say it"

    def about(self, breadcrumb_id: str, count: int = 1) -> list[Any]:
        """Waits for the first events about a breadcrumb."""

        def found() -> list[Any]:
            return [event for event in self.events if event.get("breadcrumb_id") == breadcrumb_id]

        self.wait(lambda _: len(found()) >= count)
        return found()


class Caller:
    """Acts as an agent of the demonstration's own tenant."""

    def __init__(self, server: httpx.Client) -> None:
        self.server = server

    def mint(self, **more: Any) -> httpx.Response:
        return self.server.post("/auth/token", json={"owner_id": OWNER_ID, "agent_id": AGENT_ID, **more})

    def sign_in(self, **more: Any) -> None:
        self.server.headers["Authorization"] = f"Bearer {self.mint(**more).raise_for_status().json()['token']}"

    def order(self, operation: str, fault: str, **more: Any) -> None:
        answered = self.server.post("/faults", json={"operation": operation, "fault": fault, **more})
        assert answered.status_code == 200, answered.text

    def create(self, schema_name: str, context: Any, tags: list[str] | None = None, **more: Any) -> httpx.Response:
        draft = {"schema_name": schema_name, "title": "a test", "tags": tags or [], "context": context, **more}
        return self.server.post("/breadcrumbs", json=draft)

    def request(self, tool: str, given: Any = None, **context: Any) -> str:
        """Files a tool request and returns its request id."""
        request_id = f"gw-{uuid.uuid4().hex}"
        asked = {"tool": tool, "input": {} if given is None else given, "requestId": request_id, **context}
        self.create("tool.request.v1", asked, REQUEST_TAGS).raise_for_status()
        return str(asked["requestId"])

    def find(self, request_id: str) -> list[Any]:
        """The responses to a request that are stored, the latest first, by what their context says."""
        query = {"schema_name": "tool.response.v1", "include_context": "true", "limit": "10"}
        found = self.server.get("/breadcrumbs", params=query).raise_for_status().json()
        return [
            item
            for item in found
            if isinstance(item["context"], dict)
            and str(item["context"].get("request_id", item["context"].get("requestId"))) == request_id
        ]

    def response(self, request_id: str, count: int = 1) -> Any:
        """Waits until this many responses are stored, and returns the latest."""
        deadline = time.monotonic() + DEADLINE_S
        while len(found := self.find(request_id)) < count:
            assert time.monotonic() < deadline, "no response"
            time.sleep(0.01)
        return found[0]

    def call(self, tool: str, given: Any = None, **context: Any) -> Any:
        """The context of the response to one request."""
        return self.response(self.request(tool, given, **context))["context"]

    def full(self, breadcrumb_id: str) -> Any:
        return self.server.get(f"/breadcrumbs/{breadcrumb_id}/full").raise_for_status().json()

    def executions(self, request_id: str) -> int:
        return int(self.server.get("/executions").json()["requests"].get(request_id, 0))

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Reads the event stream on a connection of its own, once its first ping has come."""
        listener = Listener()
        with (
            plainhttp.client(base_url=self.server.base_url, headers=self.server.headers, timeout=DEADLINE_S) as client,
            client.stream("GET", "/events/stream") as response,
        ):
            response.raise_for_status()
            thread = threading.Thread(target=listener.read, args=(response,))
            thread.start()
            try:
                listener.wait(lambda listener: bool(listener.chunks))
                yield listener
            finally:
                connection: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
                if listener.ended is None:
                    connection.shutdown(socket.SHUT_RDWR)
                thread.join()


@contextmanager
def calling(*arguments: str) -> Iterator[Caller]:
    """A caller with a server of its own, signed in."""
    with connected("rcrt_server", *arguments) as server:
        caller = Caller(server)
        caller.sign_in()
        yield caller
