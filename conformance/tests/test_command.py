"""The command: a tool server is judged, and what that says decides the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from conformance.tests.entering import entered
from tests.support.ports import lasting_port
from tests.support.terminal import tool_server

ADD = ("--call", "Calculator.Add", '{"a": 1, "b": 2}')
RAP = ("server", "http://127.0.0.1:1", "--protocol", "rap")
MORE = (*ADD, "--call", "Calculator.Add", '{"a": 1, "b": 3}')


@pytest.fixture(scope="module")
def office() -> Iterator[str]:
    with tool_server() as url:
        yield url


def test_every_demonstration_server_of_otc_passes_whole(office: str) -> None:
    done = entered("server", office, "--protocol", "otc", *MORE)
    assert done.returncode == 0
    assert ", 0 failed, " in done.stdout


def test_without_a_call_the_report_says_how_many_checks_need_one(office: str) -> None:
    done = entered("server", office, "--protocol", "otc")
    assert done.returncode == 0
    assert "\n13 checks need a tool that may run: name one with --call TOOL JSON.\n" in done.stdout


def test_a_server_that_conforms_gets_one_line(office: str) -> None:
    done = entered("server", office, "--protocol", "otc", *ADD, "--only", "MUST")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{office} conforms to OTC 1.0: ")
    assert ", 0 failed, " in done.stdout


def test_what_fails_is_shown_with_what_was_sent_and_what_came(office: str) -> None:
    done = entered("server", office, "--protocol", "oxp", *ADD)
    assert done.returncode == 1
    assert "does not conform to OXP 1.0" in done.stdout.splitlines()[0]
    failed = done.stdout.partition("\nOXP-004 ")[2].partition("\n\n")[0]
    assert all(word in failed for word in ("source:", "expected:", "sent:", "GET ", "came:", "HTTP/1.1", "fix:"))


def test_programs_get_json_and_junit_and_a_baseline_takes_failures_out(office: str, tmp_path: Path) -> None:
    words = ("server", office, "--protocol", "oxp", "--only", "OXP-00?", "--format")
    done = entered(*words, "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["conforms"]) == (1, False)
    assert {each["id"] for each in found["checks"] if each["status"] == "failed"} == {"OXP-004", "OXP-005"}
    suite = ElementTree.fromstring(entered(*words, "junit").stdout)
    assert suite.get("failures") == "2"
    assert "| OXP-005 | MUST |" in entered(*words, "markdown").stdout
    known = tmp_path / "known.json"
    known.write_text(done.stdout)
    assert entered(*words, "text", "--baseline", str(known)).returncode == 0


def test_a_good_practice_that_is_missing_does_not_fail() -> None:
    with tool_server("rap_server") as url:  # which has no list of LangChain's form
        done = entered("server", url, "--protocol", "lc", "--only", "good")
    assert done.returncode == 0
    assert "✕ LC-013 GOOD" in done.stdout


def test_a_token_is_sent_and_never_shown(office: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFORMANCE_TOKEN", "a-secret-token")
    words = ("server", office, "--protocol", "otc", "--only", "OTC-07[01]", "--format", "json")
    done = entered(*words)
    assert "a-secret-token" not in done.stdout
    assert [each["status"] for each in json.loads(done.stdout)["checks"]] == ["failed", "failed"]  # it asks for none


def test_a_check_is_explained_and_all_are_listed() -> None:
    done = entered("explain", "oxp-040")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OXP-040 MUST: A missing argument is refused with 422\n")
    lines = entered("list").stdout.splitlines()
    ids = [line.split()[0] for line in lines]
    assert len(ids) == len(set(ids)) > 150
    assert {"OTC-001", "RFC-001", "OXP-001", "ENV-001", "LC-001"} <= set(ids)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("server", "--protocol", "otc"), 2, "The URL of the tool server is missing"),
        (("client", "--protocol", "rap", "--", "no-such-program-here"), 2, "is no program"),
        (("client", "--protocol", "otc"), 2, "Write the client after --"),
        (("client", "--protocol", "otc", "--", "no-such-program-here"), 2, "is no program"),
        (
            ("server", "http://127.0.0.1:1/mcp", "--protocol", "mcp", "--only", "a", "--only", "b"),
            2,
            "takes one --only",
        ),
        (("server", "http://127.0.0.1:1/mcp", "--protocol", "mcp", "--format", "json"), 2, "--format has no effect"),
        (("server", "http://127.0.0.1:1", "--protocol", "otc", "--callback-port", "1"), 2, "--callback-port has no"),
        (("server", "http://127.0.0.1:1", "--protocol", "rap", "--owner-id", "x"), 2, "no effect on servers of rap"),
        (("server", "http://127.0.0.1:1", "--protocol", "otc", "--", "x"), 2, "What stands after -- is a client"),
        (
            ("client", "--protocol", "oxp", "--call", "A.B", "{}", "--", "x"),
            2,
            "--call has no effect on clients of oxp",
        ),
        (("client", "http://127.0.0.1:1", "--protocol", "oxp", "--", "x"), 2, "A client has no URL"),
        ((*RAP, "--callback-host", "0.0.0.0"), 2, "say with --callback-url"),
        ((*RAP, "--callback-url", "kit.example"), 2, "has to be an http or https URL"),
        (("explain",), 2, "The id of the check is missing"),
        (("server", "http://127.0.0.1:1"), 2, "--protocol is missing"),
        (("server", "http://127.0.0.1:1", "--protocol", "smtp"), 2, "invalid choice"),
        (("server", "http://127.0.0.1:1", "--protocol", "otc", "--call", "A.B", "["), 2, "must be a JSON object"),
        (("server", "http://127.0.0.1:1", "--protocol", "otc", "--only", "X-*"), 2, "No check fits"),
        (("explain", "OXP-999"), 2, "There is no check OXP-999"),
        (("judge", "x"), 2, "invalid choice"),
    ],
)
def test_wrong_words_are_told(words: tuple[str, ...], code: int, said: str) -> None:
    done = entered(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_server_that_does_not_answer_is_told() -> None:
    done = entered("server", f"http://127.0.0.1:{lasting_port()}", "--protocol", "otc")
    assert done.returncode == 3
    assert "Nothing answers" in done.stderr


@pytest.mark.parametrize("text", ["{}", "[", '{"checks": [1]}'])
def test_a_baseline_that_is_no_report_is_told(office: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "known.json"
    file.write_text(text)
    done = entered("server", office, "--protocol", "otc", "--only", "OTC-001", "--baseline", str(file))
    assert done.returncode == 2
    assert "is no report" in done.stderr


GOOD_CLIENT = ("--", sys.executable, "-m", "conformance.tests.good_client", "oxp")


def test_a_client_is_judged_by_what_it_does() -> None:
    only = ("--only", "OXPC-00?")
    done = entered("client", "--protocol", "oxp", *only, *GOOD_CLIENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "conforms to OXP 1.0 (clients): " in done.stdout
    bad = entered("client", "--protocol", "oxp", *only, "--", sys.executable, "-c", "pass")
    assert bad.returncode == 1
    assert "✕ OXPC-00" in bad.stdout


@pytest.mark.parametrize(("protocol", "id_"), [("rap", "RAP-001"), ("rcrt", "RCRT-030")])
def test_servers_that_answer_later_are_judged_too(office: str, protocol: str, id_: str) -> None:
    ids = ("--owner-id", str(uuid4()), "--agent-id", str(uuid4())) if protocol == "rcrt" else ()
    done = entered("server", office, "--protocol", protocol, "--only", id_, *ids)
    assert done.returncode == 1
    assert f"✕ {id_}" in done.stdout


def test_callbacks_are_received_where_the_operator_says() -> None:
    port = lasting_port()
    with tool_server("rap_server") as url:
        words = ("server", url, "--protocol", "rap", "--only", "RAP-030", "--call", "photo", "{}")
        done = entered(*words, "--callback-host", "127.0.0.2", "--callback-port", str(port))
        assert (done.returncode, done.stderr) == (0, "")
        anywhere = ("--callback-host", "0.0.0.0", "--callback-port", str(port))
        told = entered(*words, *anywhere, "--callback-url", f"http://127.0.0.1:{port}")  # it posts to no other address
        assert (told.returncode, told.stderr) == (0, "")
        wrong = entered(*words, "--callback-host", "::2")
        assert wrong.returncode == 2
        assert "Callbacks cannot be received at ::2" in wrong.stderr


def test_mcp_is_left_to_the_official_suite_where_node_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("server", "http://127.0.0.1:1/mcp", "--protocol", "mcp")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = entered(*words)
    assert done.returncode == 2
    assert "Node.js 22 or later" in done.stderr
    program(tmp_path / "npx", 'echo "$@" > "$0.said"; exit 7')
    program(tmp_path / "node", "echo v20.1.0")
    assert "Node.js 22 or later" in entered(*words).stderr
    program(tmp_path / "node", "echo v24.1.0")
    assert entered(*words).returncode == 1
    said = (tmp_path / "npx.said").read_text()
    assert said.startswith("--yes @modelcontextprotocol/conformance@")
    assert said.endswith(" server --url http://127.0.0.1:1/mcp\n")
    entered("client", "--protocol", "mcp", "--only", "tools_call", "--", "./agent", "a b")
    assert (tmp_path / "npx.said").read_text().endswith(" client --command ./agent 'a b' --scenario tools_call\n")


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
