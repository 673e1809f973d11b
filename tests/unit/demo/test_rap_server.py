"""The RAP demonstration server alone; tests/live tries its operations through a gateway."""

from __future__ import annotations

import json
import queue
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.support.terminal import DEADLINE_S, connected

MODULE = "gateway.demo.rap_server"


@dataclass
class Caller:
    """Invokes operations; `messages` holds what was posted to its callback URL."""

    server: httpx.Client
    callback_url: str
    messages: queue.Queue[Any]

    def invocation(self, operation: str, **more: Any) -> dict[str, Any]:
        """An invocation with ids of its own."""
        ids = {"id": uuid.uuid4().hex, "call_id": None, "group_id": "group", "callback_url": self.callback_url}
        return {"operation": operation, "arguments": {}, **ids, **more}

    def invoke(self, invocation: dict[str, Any]) -> httpx.Response:
        return self.server.post("/invoke", json=invocation)

    def result_of(self, invocation: dict[str, Any]) -> dict[str, Any]:
        """Invokes, and waits for the result."""
        acknowledged = self.invoke(invocation)
        assert (acknowledged.status_code, acknowledged.content) == (200, b"")
        message: dict[str, Any] = self.messages.get(timeout=DEADLINE_S)
        assert message["type"] == "tool_result"
        return message


@contextmanager
def calling(*options: str) -> Iterator[Caller]:
    """A caller of a server with these options; its callback endpoint listens on a free port of loopback."""

    messages: queue.Queue[Any] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library has it
            pass

    with connected(MODULE, *options) as server, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        caller = Caller(server, f"http://127.0.0.1:{listener.server_port}/callbacks/any", messages)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield caller
        listener.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with calling() as caller:
        yield caller


def test_the_toolset_is_where_it_must_be_and_complete(caller: Caller) -> None:
    manifest = caller.server.get("/.well-known/rap-toolset").json()
    assert manifest["name"] == "Builds"
    assert manifest["endpoint"] == f"{str(caller.server.base_url).rstrip('/')}/invoke"
    tools = {tool["name"]: tool for tool in manifest["tools"]}
    assert set(tools) == {"lint", "build", "deploy", "watch", "explode", "ask", "photo"}
    assert all(set(tool) == {"name", "description", "inputSchema", "annotations"} for tool in tools.values())
    assert tools["build"]["annotations"]["longRunning"] is True
    assert tools["deploy"]["annotations"]["requiresAuth"] == "demo-deploy"


def test_a_result_repeats_the_ids_of_its_invocation(caller: Caller) -> None:
    invocation = caller.invocation("lint", arguments={"source": "a \nb"}, call_id="call-7")
    message = caller.result_of(invocation)
    problem = {"line": 1, "problem": "trailing whitespace"}
    assert json.loads(message.pop("text")) == {"clean": False, "problems": [problem]}
    ids = {name: invocation[name] for name in ("group_id", "id", "call_id")}
    assert message == {"type": "tool_result", **ids}


REFUSED_IN_A_RESULT: list[tuple[dict[str, Any], str]] = [
    ({"operation": "paint"}, "Error: There is no such operation"),
    ({"operation": ""}, "Error: The invocation is invalid"),
    ({"operation": 7}, "Error: The invocation is invalid: /operation"),
    ({"arguments": []}, "Error: The invocation is invalid: /arguments"),
    ({"arguments": {}}, "Error: The arguments are invalid"),
    ({"arguments": {"source": 1}}, "Error: The arguments are invalid: /source"),
    ({"arguments": {"source": "", "depth": 1}}, "Error: The arguments are invalid"),
    ({"arguments": {"source": "x" * 20_001}}, "Error: The arguments are invalid: /source"),
    ({"thread_ancestors": "root"}, "Error: The invocation is invalid: /thread_ancestors"),
    ({"user_id": 1}, "Error: The invocation is invalid: /user_id"),
]


@pytest.mark.parametrize(("wrong", "text"), REFUSED_IN_A_RESULT)
def test_a_wrong_call_gets_a_result_that_says_so(caller: Caller, wrong: dict[str, Any], text: str) -> None:
    invocation = {**caller.invocation("lint", arguments={"source": ""}), **wrong}
    assert caller.result_of(invocation)["text"].startswith(text)
    assert invocation["id"] not in caller.server.get("/executions").json()["ids"]


BEYOND_LOOPBACK = [
    *("http://10.0.0.1/callbacks/x", "http://169.254.169.254/latest", "http://toolgate.example/callbacks/x"),
    *(
        "http://localhost.example/",
        "http://user@127.0.0.1/",
        "file:///etc/passwd",
        "127.0.0.1/callbacks",
        "http://[::1",
    ),
]


@pytest.mark.parametrize("url", BEYOND_LOOPBACK)
def test_a_callback_url_beyond_loopback_is_refused(caller: Caller, url: str) -> None:
    assert caller.invoke(caller.invocation("explode", callback_url=url)).status_code == 403


def test_a_callback_origin_can_be_allowed() -> None:
    with calling("--callback-origin", "http://toolgate.invalid:8080") as caller:
        for port, status in ((8080, 200), (8081, 403)):
            url = f"http://toolgate.invalid:{port}/callbacks/x"
            assert caller.invoke(caller.invocation("explode", callback_url=url)).status_code == status


def test_with_a_token_everything_but_consent_and_health_asks_for_it() -> None:
    with calling("--token", "t0k") as caller:
        assert caller.server.get("/.well-known/rap-toolset").status_code == 401
        for path in ("/invoke", "/cancel_tool_call", "/close_thread"):
            assert caller.server.post(path, json={}).status_code == 401
        assert caller.server.get("/health").status_code == 200
        caller.server.headers["Authorization"] = "Bearer t0k"
        assert caller.result_of(caller.invocation("explode"))["text"].startswith("Error: ")
