"""`toolgate check`: the file, and with `--live` the tool servers behind it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cli.terminal import entered, tool_server

CONFIG = """
auth: none
backends:
  office: {protocol: otc, url: "%(office)s"}
  gone: {protocol: oxp, url: "%(gone)s"}
routes:
  - {tools: "Calculator.*", backend: office, scopes: [calc]}
  - {tools: "*", backend: gone}
"""


@pytest.fixture(scope="module")
def office() -> Iterator[str]:
    with tool_server() as url:
        yield url


@pytest.fixture
def nowhere() -> str:
    """A URL at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "it.yaml"
    path.write_text(text)
    return str(path)


def test_a_good_file_is_told_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, CONFIG % {"office": "http://127.0.0.1:1", "gone": "http://127.0.0.1:2"})
    done = entered("check", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: good (2 backends, 2 routes)\n", "")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "auth: nobody\nbackends: {a: {protocol: smtp, url: x}}\n")
    done = entered("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) >= 2
    assert all(line.startswith(f"{path}:") for line in done.stderr.splitlines())


def test_problems_for_a_program_are_json(tmp_path: Path) -> None:
    path = write(tmp_path, "auth: nobody\n")
    done = entered("check", path, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["file"], len(found["problems"])) == (2, path, 1)


def test_absent_variables_may_be_overlooked(tmp_path: Path) -> None:
    path = write(tmp_path, "auth: {jwt: [{secret: '${env:NOBODY_SETS_THIS}'}]}\n")
    done = entered("check", path)
    assert done.returncode == 2
    assert "environment variable NOBODY_SETS_THIS is not set" in done.stderr
    assert done.stderr.splitlines()[-1] == "Where these are absent on purpose: --allow-missing-env."
    assert entered("check", path, "--allow-missing-env").returncode == 0


def test_what_is_rarely_meant_is_a_warning(tmp_path: Path) -> None:
    text = 'server: {host: 0.0.0.0}\nauth: none\nbackends: {a: {protocol: otc, url: "http://127.0.0.1:1"}}\n'
    done = entered("check", write(tmp_path, text))
    assert done.returncode == 0
    warnings = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in warnings] == ["warning"] * 3
    assert "backends.a: no route publishes any of its tools" in warnings[2]


def test_live_accounts_for_every_tool_server_and_every_tool(tmp_path: Path, office: str, nowhere: str) -> None:
    done = entered("check", write(tmp_path, CONFIG % {"office": office, "gone": nowhere}), "--live")
    assert done.returncode == 1  # one of them is down
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["office", "otc", "otc", "up", "3"] in lines
    assert ["gone", "oxp", "oxp", "DOWN", "0"] in lines
    assert ["Calculator.Divide@1.0.0", "office", "calc", "Divides", "a", "by", "b."] in lines
    assert f"gone is down: connect: {nowhere} cannot be reached." in done.stdout
    assert "office: no route publishes 3 tools: Clock.Sleep@1.0.0, Doorbell.Ring@0.1.0, Text.Echo@1.0.0" in done.stdout


def test_live_is_good_when_all_is_up(tmp_path: Path, office: str) -> None:
    text = f'auth: none\nbackends: {{a: {{protocol: otc, url: "{office}"}}}}\nroutes: [{{tools: "*", backend: a}}]\n'
    done = entered("check", write(tmp_path, text), "--live", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["backends"]["a"] == {
        "protocol": "otc",
        "dialect": "otc",
        "up": True,
        "cause": None,
        "tools": 6,
        "rejected": [],
        "unrouted": [],
    }
    assert {tool["id"] for tool in found["tools"]} >= {"Calculator.Add@1.0.0", "Text.Echo@1.0.0"}
