"""The demonstration works as printed, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from gateway.demo.fleet import SERVERS
from tests.support.demonstration import LAST_LINE, Demo, read_screen
from tests.support.terminal import DEADLINE_S, TOOLGATE, Running, environment, eventually, gone, running, toolgate

DIALECTS = ("/rfc/", "/otc/", "/oxp/", "/oxp-env/", "/lc/", "/mcp")


def shell(line: str, **env: str) -> str:
    """What a line prints in a POSIX shell."""
    assert shutil.which("curl"), "These tests run the lines of the demonstration: install curl."
    run = subprocess.run(
        ["sh", "-c", line], env=environment(**env), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def examples(screen: str) -> list[tuple[str, str]]:
    """Each expectation with the curl line it stands before."""
    return re.findall(r"^# .* -> (.*)\n(curl .*)$", screen, re.MULTILINE)


def squeezed(text: str) -> str:
    return text.replace(" ", "")


def test_every_curl_line_answers_what_is_announced(demo: Demo) -> None:
    found = examples(demo.screen)
    assert len(found) == demo.screen.count("\ncurl ") >= len(DIALECTS)
    for expected, line in found:
        status, _, excerpt = expected.partition(", ")
        body, told_status = shell(line, **demo.env).rstrip("\n").rsplit("\n", 1)
        assert told_status == status, line
        assert squeezed(excerpt).removesuffix("}") in squeezed(body), line


def test_there_is_a_line_for_every_dialect(demo: Demo) -> None:
    assert all(any(f"{demo.url}{prefix}" in line for _, line in examples(demo.screen)) for prefix in DIALECTS)


def test_an_mcp_client_that_reads_what_is_shown_for_it_finds_the_tools(demo: Demo) -> None:
    files = [json.loads(line) for line in demo.screen.splitlines() if line.startswith("{")]
    assert [list(file) for file in files] == [["mcpServers"], ["servers"]]
    for file in files:
        (servers,) = file.values()
        server = servers["toolgate"]
        told = {name: value.replace("${env:TOOLGATE_TOKEN}", demo.env["TOOLGATE_TOKEN"])
                for name, value in server["headers"].items()}  # fmt: skip
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {**told, "Content-Type": "application/json"}
        request = urllib.request.Request(server["url"], json.dumps(asked).encode(), headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            names = [tool["name"] for tool in json.load(reply)["result"]["tools"]]
        assert {"Calculator_Add", "Studio_swatch"} <= set(names)


def test_a_comment_pasted_with_its_line_opens_no_quote(demo: Demo) -> None:
    for line in demo.screen.splitlines():
        shlex.split(line)


@pytest.mark.parametrize(
    ("tool", "outcome"), [("Mail.Search", "Invoice 1042"), ("Builds.deploy", '"status":"deployed"')]
)
def test_after_the_consent_the_same_line_brings_the_value(demo: Demo, tool: str, outcome: str) -> None:
    line = next(line for _, line in examples(demo.screen) if tool in line)
    line = line.replace('"ada"', '"grace"')
    challenge = shell(line, **demo.env)
    (url,) = re.findall(r'"url":"([^"]+)"', challenge)
    (check_url,) = re.findall(r'"check_url":"([^"]+)"', challenge)
    assert check_url.startswith(f"{demo.url}/challenges/")  # the port was free to choose: the real one is in it
    assert shell(line, **demo.env).count(url) == 1  # still the same consent
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=DEADLINE_S).close()
    eventually(lambda: outcome in shell(line, **demo.env), "the value comes")
    with urllib.request.urlopen(check_url, timeout=DEADLINE_S) as reply:
        assert b"completed" in reply.read()


def test_the_line_of_the_long_build_brings_its_value_when_it_is_repeated(demo: Demo) -> None:
    line = next(line for _, line in examples(demo.screen) if "Builds.build" in line)
    eventually(lambda: '"status":"built"' in shell(line, **demo.env), "the build ends")


def test_the_lines_without_curl_work_too(demo: Demo) -> None:
    _, _, lines = demo.screen.partition("The same without curl:\n")
    tools, call, build, mail = lines.splitlines()
    assert "Calculator.Add@1.1.0" in shell(tools, **demo.env)
    assert shell(call, **demo.env) == "42\n"
    assert '"status": "built"' in shell(build, **demo.env)
    assert mail.endswith(LAST_LINE + " ada")


def ends_by_ctrl_c(command: Running) -> None:
    command.interrupt()


def ends_by_sigterm(command: Running) -> None:
    command.process.terminate()


@pytest.mark.parametrize("end", [ends_by_ctrl_c, pytest.param(ends_by_sigterm, marks=pytest.mark.soak)])
def test_it_ends_with_0_and_leaves_no_process_and_no_port(end: Callable[[Running], None]) -> None:
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        command.wait_for(LAST_LINE)
        children, shown = command.children(), read_screen(command.out.decode())
        assert len(children) == len(SERVERS)
        end(command)
        assert command.ended() == 0
    assert gone(children)
    assert command.out.endswith(b"Stopped; nothing is left running.\n")
    assert command.err == b""
    admin = re.findall(r"http://127\.0\.0\.1:(\d+)/health", shown.screen)
    for port in (urlsplit(shown.url).port, int(admin[0])):
        socket.create_server(("127.0.0.1", port or 0)).close()


@pytest.mark.parametrize("end", [pytest.param(ends_by_ctrl_c, marks=pytest.mark.soak), ends_by_sigterm])
def test_it_can_be_stopped_while_it_still_starts(end: Callable[[Running], None]) -> None:
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        eventually(lambda: bool(command.children()), "a tool server starts")
        children = command.children()
        end(command)
        assert command.ended() == 0
    assert gone(children)
    assert command.err == b""


def test_its_tool_servers_end_even_when_it_is_killed() -> None:
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        command.wait_for(LAST_LINE)
        children = command.children()
        os.kill(command.process.pid, signal.SIGKILL)
        assert command.ended() == -signal.SIGKILL
        eventually(lambda: gone(children), "the tool servers end")


@pytest.mark.soak
def test_a_port_that_was_asked_for_and_is_taken_is_an_error(demo: Demo) -> None:
    port = str(urlsplit(demo.url).port)
    second = toolgate("demo", "--port", port)
    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr.startswith(f"Cannot listen on 127.0.0.1:{port}: the port is in use.")


@pytest.mark.soak
def test_two_that_start_together_both_find_ports() -> None:
    """Both see that the usual ports are free, and only one can have them."""
    with running([*TOOLGATE, "demo"]) as one, running([*TOOLGATE, "demo"]) as other:
        for command in (one, other):
            command.wait_for(LAST_LINE)
        for command in (one, other):
            command.interrupt()
            assert command.ended() == 0
            assert command.err == b""
