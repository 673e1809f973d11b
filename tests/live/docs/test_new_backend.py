"""The backend of the page on extending, added to a copy of the package, calls a server of functions."""

from __future__ import annotations

import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.markdown import DOCS, blocks
from tests.support.terminal import DEADLINE_S, ROOT, TOOLGATE, Running, eventually, healthy, running

ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


class Functions(BaseHTTPRequestHandler):
    """A server with one function; it fails for numbers below zero, and breaks off for very large ones."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, [ADD])

    def do_POST(self) -> None:
        arguments = json.loads(self.rfile.read(int(self.headers["content-length"])))["arguments"]
        if arguments["a"] > 1e9:
            self.close_connection = True
        elif arguments["a"] < 0:
            self._answer(500, {"message": "No."})
        else:
            self._answer(200, {"returned": arguments["a"] + arguments["b"]})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def functions() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Functions) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as the page changes it, and the configuration of the page."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "gateway", folder / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
    page = (DOCS / "extending.md").read_text("utf-8")
    (folder / "gateway/protocols/functions").mkdir()
    for block in blocks(page):
        if block.mark == "gateway/protocols/__init__.py":
            insert(folder / block.mark, r"^\}", block.text, after="PROTOCOLS: ")
        elif block.mark.startswith("gateway/") or block.mark == "functions.yaml":
            (folder / block.mark).write_text(block.text, "utf-8")
    return folder


def insert(file: Path, before: str, text: str, *, after: str = "") -> None:
    """Adds lines in front of the first line that begins as `before`, behind one that begins as `after`."""
    source = file.read_text("utf-8")
    begin = re.compile(f"^{after}", re.MULTILINE).search(source)
    assert begin is not None
    at = re.compile(before if before.startswith("^") else f"^{before}", re.MULTILINE).search(source, begin.start())
    assert at is not None
    file.write_text(source[: at.start()] + text + source[at.start() :], "utf-8")


@contextmanager
def serving(folder: Path, port: int) -> Iterator[str]:
    """The address of a gateway of that folder."""
    config = (folder / "functions.yaml").read_text("utf-8").replace("9109", str(port))
    (folder / "served.yaml").write_text(config + "server: {port: 0, admin: {port: 0}}\n", "utf-8")
    with running([*TOOLGATE, "serve", "-c", "served.yaml"], {"PYTHONPATH": str(folder)}, folder) as gateway:
        url = address(gateway)
        eventually(lambda: healthy(url), "the gateway is ready")
        yield url


def address(gateway: Running) -> str:
    (port,) = re.findall(r'"public":"[^"]+:(\d+)"', gateway.wait_for('"message":"listening"'))
    return f"http://127.0.0.1:{port}"


def call(url: str, **arguments: float) -> tuple[int, Any]:
    body = json.dumps({"tool_id": "sums.add", "input": arguments}).encode()
    request = urllib.request.Request(
        f"{url}/oxp/tools/call", body, {"content-type": "application/json", "oxp-version": "1.0"}
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_the_backend_of_the_page_calls_its_tool_server_as_every_other_does(extended: Path) -> None:
    with functions() as port, serving(extended, port) as url:
        status, answered = call(url, a=1, b=2)
        assert (status, answered["success"], answered["value"]) == (200, True, 3)
        assert call(url, a=1)[0] == 422
        failures = [call(url, a=-1, b=2), call(url, a=1e10, b=2)]
    messages = ["The tool failed inside its server.", "The connection to the tool server broke; the tool may have run."]
    assert [answer["error"]["message"] for _, answer in failures] == messages
    assert [status for status, _ in failures] == [200, 200]
