"""`toolgate init`: from the URL of a tool server to a call, with nothing between but the commands it prints."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gateway.cli import configuration
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.settings.load import load
from tests.flow import gateways
from tests.support.demonstration import Demo
from tests.support.terminal import DEADLINE_S, TOOLGATE, Done, entered, environment

INTERRUPT_S = 5.0

FORMS = {
    "office": "OTC 1.0",
    "postbox": "OXP 1.0, flat",
    "builds": "callbacks (RAP)",
    "crumbs": "breadcrumbs (RCRT)",
    "studio": "MCP 2026-07-28",
}


@pytest.fixture(scope="module")
def servers(demo: Demo) -> Mapping[str, str]:
    """The URLs of the demonstration's tool servers, without the paths of their protocols."""
    (admin_url,) = re.findall(r"(http://[\d.:]+)/health", demo.screen)
    with urllib.request.urlopen(f"{admin_url}/health", timeout=DEADLINE_S) as reply:
        backends = json.load(reply)["backends"]
    return {name: it["replicas"][0]["url"].removesuffix("/mcp") for name, it in backends.items()}


def test_each_server_of_the_demonstration_becomes_a_configuration(servers: Mapping[str, str], tmp_path: Path) -> None:
    for name, form in FORMS.items():
        file = tmp_path / f"{name}.yaml"
        done = entered("init", servers[name], "-o", str(file), "--name", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"\n  {name}: " in done.stdout
        assert f" over {form} (" in done.stdout
        assert "Checked live: no problems." in done.stdout
        assert {route.backend for route in load(file).routes} == {name}


def test_openapi_57_an_apis_url_becomes_a_gateway_that_can_be_called(
    servers: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    done = entered("init", servers["weather"], "-o", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "weather_archive: 5 tools of Weather archive" in done.stdout
    assert f"found its document (OpenAPI 3.1) at {servers['weather']}/openapi.json" in done.stdout
    (key,) = re.findall("TOOLGATE_TOKEN=([0-9a-f]{64}) ", done.stdout)
    assert key not in file.read_text()

    checked = entered("check", "--live", "--json", str(file))
    assert (checked.returncode, checked.stderr) == (0, "")
    found = json.loads(checked.stdout)
    facts = dict(found["backends"]["weather_archive"]["report"]["facts"])
    counted = "6, of them 5 published, 1 left out, 0 that cannot be tools"
    assert (found["remarks"], facts["operations"], len(found["tools"])) == ([], counted, 5)
    chosen = entered("check", "--operations", str(file))
    assert '  - {operation: "readStation"} # GET /stations/{station}' in chosen.stdout
    shown = entered("check", "--live", str(file)).stdout
    assert "left out 1: operations.methods leaves out POST. addObservation" in shown

    called = asyncio.run(read_station(file.read_text(), key))
    assert called["country"] == "NO"


async def read_station(text: str, key: str) -> Any:
    """The value of a call to a gateway with that configuration."""
    async with gateways.running(text) as running:
        caller = running.caller.with_token(key)
        return (await caller.call("oxp", "weather_archive.readStation", {"station": "bergen"})).value


def test_an_api_that_does_not_answer_is_written_and_told(servers: Mapping[str, str], tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    done = entered("init", servers["weather"], "-o", str(file), "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr, file.exists()) == (1, "", True)
    assert "  Checked live: 1 problem.\n    weather_archive is down: " in done.stdout


def refused(*words: str) -> str:
    """What a command says that is used wrongly."""
    done = entered("init", *words)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_what_contradicts_itself_is_refused_and_nothing_is_written(servers: Mapping[str, str], tmp_path: Path) -> None:
    file, url = tmp_path / "out.yaml", servers["office"]
    output = ("-o", str(file))
    assert "either an API key or tokens" in refused(url, *output, "--api-key", "--issuer", "https://a.example")
    assert "It speaks OTC 1.0; --url, --method" in refused(url, *output, "--tag", "a")
    assert "as a name must be" in refused(url, *output, "--name", "a b")
    assert "cannot be written: No such file" in refused(url, "-o", str(tmp_path / "absent" / "out.yaml"))
    assert os.listdir(tmp_path) == []
    file.write_text("mine")
    assert "is there already and stays as it is; name another with --output." in refused("http://127.0.0.1:1", *output)
    assert file.read_text() == "mine"


# On a terminal.


@contextlib.contextmanager
def terminal(typed: str) -> Iterator[tuple[int, int]]:
    """A terminal on which all that has been typed already; its two sides."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, typed.encode())
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def answered(typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Done:
    """Runs the command in a folder; its prompts and all it says go to the standard output."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("gateway.cli.drafting.questions.on_terminal", lambda: True)
    with terminal(typed) as (_, theirs), open(os.dup(theirs)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        return entered("init", *words)


def test_questions_lead_to_a_file_and_bad_answers_are_asked_again(
    servers: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration_file = tmp_path / configuration.DEFAULT
    configuration_file.write_text("mine")
    typed = ["http://127.0.0.1:1", servers["postbox"], "a b", "post", "4", "3", "", "gateway.yaml", ""]
    done = answered("".join(f"{line}\n" for line in typed), tmp_path, monkeypatch)
    assert done.returncode == 0, done.stderr
    for asked in ("Name of the backend [tools]: ", "Choice [1]: ", "the secret [TOOLGATE_JWT_SECRET]: "):
        assert asked in done.stdout
    assert "connection refused" in done.stderr
    assert "as a name must be" in done.stderr
    assert "Answer 1, 2 or 3." in done.stderr
    assert "gateway.yaml is there already and stays as it is." in done.stderr
    assert 'export TOOLGATE_TOKEN="$(toolgate token -c post.yaml)"' in done.stdout
    written = load(tmp_path / "post.yaml", env={"TOOLGATE_JWT_SECRET": "s" * 32})
    assert list(written.backends) == ["post"]
    assert configuration_file.read_text() == "mine"


def test_another_origin_that_the_document_names_is_asked_about_before_anything_goes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": {"/a": {"get": {}}}}
    pets = tmp_path / "pets.json"
    pets.write_text(json.dumps(named | {"servers": [{"url": "http://127.0.0.1:1"}]}))
    monkeypatch.setenv("PETS_TOKEN", "t0k")
    refusal = refused(str(pets), "-o", str(tmp_path / "out.yaml"), "--token-env", "PETS_TOKEN")
    assert "names a server for calls: http://127.0.0.1:1. Nothing was sent there.\n" in refusal
    assert os.listdir(tmp_path) == ["pets.json"]
    typed = f"{pets}\nhttp://127.0.0.1:2/own\n\n\n\n"
    done = answered(typed, tmp_path, monkeypatch, "--token-env", "PETS_TOKEN")
    assert "URL for calls [http://127.0.0.1:1]: " in done.stdout
    written = load(tmp_path / configuration.DEFAULT, env={"PETS_TOKEN": "t0k"}).backends["pets"]
    assert isinstance(written, OpenApiBackendSettings)
    assert written.url == "http://127.0.0.1:2/own"


class GitHub(BaseHTTPRequestHandler):
    """Answers with a document whose words name a variable that many have in their shell; notes what it is sent."""

    sent: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.sent.append(self.headers["authorization"])
        schemes = {"token": {"type": "http", "scheme": "bearer"}}
        api = {"openapi": "3.1.0", "info": {"title": "GitHub", "version": "1"}, "paths": {"/a": {"get": {}}}}
        text = json.dumps(api | {"components": {"securitySchemes": schemes}, "security": [{"token": []}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Unclear(BaseHTTPRequestHandler):
    """Lists a tool in neither form of OXP."""

    def do_GET(self) -> None:
        tool = {"id": "Math.Add@1.0.0", "name": "Math_Add", "version": "1.0.0", "description": "Adds."}
        text = json.dumps({"items": [tool | {"input_schema": {"type": "object"}}]} if self.path == "/tools" else {})
        self.send_response(200 if self.path == "/tools" else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_a_list_that_shows_no_form_of_oxp_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    with ThreadingHTTPServer(("127.0.0.1", 0), Unclear) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        written = entered("init", f"http://127.0.0.1:{server.server_port}", "-o", str(file))
        checked = entered("check", "--live", str(file))
        server.shutdown()
    assert "  Checked live: 1 problem.\n    math: its list shows neither form of OXP" in written.stdout
    assert "math: its list shows neither form of OXP" in checked.stdout
    assert "\nmath:\n" not in checked.stdout  # no heading with nothing below it


def test_a_variable_that_only_the_document_names_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    with ThreadingHTTPServer(("127.0.0.1", 0), GitHub) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/openapi.json"
        done = entered("init", url, "-o", str(tmp_path / "out.yaml"))
        server.shutdown()
    assert (done.returncode, done.stderr) == (0, "")
    assert "${env:GITHUB_TOKEN}" in (tmp_path / "out.yaml").read_text()
    assert "export GITHUB_TOKEN=...  # what the API expects" in re.sub(" +#", "  #", done.stdout)
    assert GitHub.sent
    assert not any("canary" in (sent or "") for sent in GitHub.sent)


def test_a_token_is_asked_for_where_the_server_wants_one(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((url, token),) = re.findall(r"TOOLGATE_URL=(\S+) TOOLGATE_TOKEN=(\S+)", demo.screen)
    monkeypatch.setenv("OTHER_TOKEN", "")  # so that it is as it was when the test is over
    monkeypatch.delenv("OTHER_TOKEN")
    monkeypatch.setattr("gateway.cli.drafting.questions.getpass", lambda _: token)
    done = answered(f"{url}\nOTHER_TOKEN\n\n\n\n", tmp_path, monkeypatch)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("The tool server needs a credential: ")
    assert "  export OTHER_TOKEN=...  # the token that the tool server wants\n" in done.stdout
    text = (tmp_path / configuration.DEFAULT).read_text()
    assert "${env:OTHER_TOKEN}" in text
    assert token not in text + done.stdout


def test_the_end_of_input_ends_the_questions_with_nothing_written(
    servers: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = answered(f"{servers['office']}\n\n\x04", tmp_path, monkeypatch)
    assert (done.returncode, done.stderr) == (1, "\nNothing is written.\n")
    assert done.stdout.endswith("Choice [1]: ")
    assert os.listdir(tmp_path) == []


def shown_until(end: bytes, terminal: int) -> None:
    """Reads what a command shows until that has come."""
    shown = b""
    while not shown.endswith(end):
        assert select.select([terminal], [], [], DEADLINE_S)[0], shown
        shown += os.read(terminal, 1024)


def interrupted(process: subprocess.Popen[bytes]) -> bytes:
    """What a command says that is ended by Ctrl-C. The prompt is written before the read that a signal can end."""
    for _ in range(int(DEADLINE_S / INTERRUPT_S)):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=INTERRUPT_S)[1]
    raise TimeoutError("it does not end")


def test_an_interrupt_at_a_question_ends_them_with_nothing_written(tmp_path: Path) -> None:
    with (
        terminal("") as (ours, theirs),
        subprocess.Popen(
            [*TOOLGATE, "init"],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # as terminals have it
        ) as process,
    ):
        try:
            shown_until(b"(also a file): ", ours)
            err = interrupted(process)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, b"\nNothing is written.\n")
    assert os.listdir(tmp_path) == []


def test_where_nobody_can_answer_the_command_says_what_to_type() -> None:
    said = refused()
    assert said.startswith("Give the URL of a tool server or of an OpenAPI document: toolgate init URL.\n")
