"""Clients of others in front of tools of every protocol, and callers of other protocols in front of MCP servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.interop.mcp.programs import HERE, installed, node
from tests.interop.programs import drive
from tests.support import terminal
from tests.support.markdown import DOCS, blocks

TEXT = {"type": "text"}
IMAGE = {"type": "image", "mimeType": "image/png"}
LINT = {"clean": False, "problems": [{"line": 1, "problem": "trailing whitespace"}]}
PERSON = {"name": "Ada", "age": 42}
SUM = "The sum of 2 and 40 is 42."

# The tool, its arguments, and what of its result is compared: blocks, structuredContent, whether it failed.
STEPS: dict[str, tuple[str, dict[str, Any], list[Any], Any]] = {
    "OTC": ("Calculator_Add", {"a": 2, "b": 40}, [{**TEXT, "text": "42"}], None),
    "callback": ("Builds_lint", {"source": "print(1) "}, [{**TEXT, "text": json.dumps(LINT)}], LINT),
    "official": ("Official_add", {"a": 2, "b": 40}, [{**TEXT, "text": "42"}], {"result": 42}),
    "official object": ("Official_person", {"name": "Ada"}, [TEXT], PERSON),
    "official image": ("Official_picture", {}, [{**TEXT, "text": "A pixel."}, IMAGE], None),
    "FastMCP": ("Fast_add", {"a": 2, "b": 40}, [{**TEXT, "text": "42"}], {"result": 42}),
    "FastMCP object": ("Fast_person", {"name": "Ada"}, [TEXT], PERSON),
    "FastMCP image": ("Fast_picture", {}, [{**TEXT, "text": "A pixel."}, IMAGE], None),
    "TypeScript": ("Everything_get_sum", {"a": 2, "b": 40}, [{**TEXT, "text": SUM}], None),
    "official on standard output": ("Piped_add", {"a": 2, "b": 40}, [{**TEXT, "text": "42"}], {"result": 42}),
    "TypeScript on standard output": ("Bridged_get_sum", {"a": 2, "b": 40}, [{**TEXT, "text": SUM}], None),
}
FAILURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a tool that fails": ("Calculator_Divide", {"a": 1, "b": 0}, "Cannot divide by zero"),
    "a tool of MCP that fails": ("Official_fail", {"why": "just so"}, "Error executing tool fail"),
    "wrong input": ("Calculator_Add", {"a": 2, "b": "forty"}, "- b: is not a number"),
    "wrong input of MCP": ("Official_add", {"a": 2, "b": "forty"}, "- b: is not"),
}
CLIENTS = {
    "mcp, modern": ("mcp", "auto"),
    "mcp, legacy": ("mcp", "legacy"),
    "fastmcp, modern": ("fastmcp", "auto"),
    "fastmcp, legacy": ("fastmcp", "legacy"),
    "TypeScript 1": ("sdk", "legacy"),
    "TypeScript 2, legacy": ("client", "legacy"),
    "TypeScript 2, modern": ("client", "auto"),
    "TypeScript 2, pinned": ("client", "pinned"),
}


@pytest.fixture(scope="module", params=list(CLIENTS.values()), ids=list(CLIENTS))
def found(request: pytest.FixtureRequest, every_protocol: str, token: str) -> Any:
    """The tools that a client has listed, and what came of each step."""
    kind, mode = request.param
    if kind in ("sdk", "client"):
        modules = str(Path(installed("node_modules/.installed")).parent)
        command = [node("inspector")[0], str(HERE / "clients.mjs"), modules, kind, mode]
    else:
        command = [installed("bin/python"), str(HERE / "clients.py"), kind, mode]
    steps = [*(step[:2] for step in (*STEPS.values(), *FAILURES.values())), ("Nobody_nothing", {})]
    done = terminal.finished([*command, f"{every_protocol}/mcp"], env={"TOOL_TOKEN": token}, stdin=json.dumps(steps))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    names = [*STEPS, *FAILURES, "unknown"]
    return outcomes["tools"], dict(zip(names, outcomes["outcomes"], strict=True))


def test_it_lists_tools_of_every_protocol(found: Any) -> None:
    tools, _ = found
    assert {tool for tool, *_ in STEPS.values()} <= set(tools)
    assert len(set(tools)) == len(tools)


@pytest.mark.parametrize("name", STEPS)
def test_it_calls_a_tool_and_reads_its_result(found: Any, name: str) -> None:
    _, outcomes = found
    _, _, blocks_expected, structured = STEPS[name]
    result = outcomes[name]
    assert not result.get("isError", False), result
    assert len(result["content"]) == len(blocks_expected)
    for block, expected in zip(result["content"], blocks_expected, strict=True):
        assert block.items() >= expected.items() or json.loads(block["text"]) == structured
    assert result.get("structuredContent") == structured


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_text_for_the_model(found: Any, name: str) -> None:
    _, outcomes = found
    assert outcomes[name]["isError"] is True
    assert FAILURES[name][2] in outcomes[name]["content"][0]["text"]


def test_an_unknown_tool_is_an_error_of_the_protocol(found: Any) -> None:
    _, outcomes = found
    assert outcomes["unknown"] == {"error": -32602}


# Callers of other protocols.

VALUES: list[tuple[str, dict[str, Any], Any]] = [
    ("Official.add", {"a": 2, "b": 40}, {"result": 42}),  # wrapped by its server, which does not say so
    ("Official.person", {"name": "Ada"}, PERSON),
    ("Fast.add", {"a": 2, "b": 40}, 42),
    ("Fast.person", {"name": "Ada"}, PERSON),
    ("Everything.get_sum", {"a": 2, "b": 40}, SUM),
    ("Bridged.get_sum", {"a": 2, "b": 40}, SUM),
    ("Piped.person", {"name": "Ada"}, PERSON),
]


def test_the_oxp_client_calls_mcp_servers(every_protocol: str, token: str) -> None:
    steps = [("call", {"request": {"tool_id": tool, "input": arguments}}) for tool, arguments, _ in VALUES]
    outcomes = drive("oxp", every_protocol, token, ("list", {}), *steps)
    tools = {tool["id"].partition("@")[0] for tool in outcomes[0]["answered"]["items"]}
    assert tools >= {tool for tool, _, _ in VALUES}
    results = [outcome["answered"]["result"] for outcome in outcomes[1:]]
    assert [(result["success"], result["value"]) for result in results] == [(True, value) for *_, value in VALUES]


@pytest.mark.parametrize("dialect", ["otc", "rfc"])
def test_an_otc_caller_gets_an_image_as_the_server_gave_it_and_a_tool_that_fails_has_run_once(
    every_protocol: str, token: str, dialect: str
) -> None:
    with plainhttp.client(base_url=every_protocol, headers={"Authorization": f"Bearer {token}"}) as http:
        text, image = value(http, dialect, "Official.picture")["content"]
        assert (text["text"], image["mimeType"]) == ("A pixel.", "image/png")
        failed = call(http, dialect, "Fast.fail", {"why": dialect})
        assert failed["success"] is False
        assert dialect in (failed.get("error") or failed["output"]["error"])["message"]
        assert value(http, dialect, "Fast.count", {"why": dialect}) == 1


def call(http: httpx.Client, dialect: str, tool: str, arguments: dict[str, Any] | None = None) -> Any:
    reply = http.post(f"/{dialect}/tools/call", json={"request": {"tool_id": tool, "input": arguments or {}}})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    return body.get("result", body)


def value(http: httpx.Client, dialect: str, tool: str, arguments: dict[str, Any] | None = None) -> Any:
    result = call(http, dialect, tool, arguments)
    assert result["success"] is True, result
    return result["value"] if dialect == "otc" else result["output"]["value"]


# The inspector, and the program of the handbook.


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
def test_the_inspector_finds_no_tool_that_large_clients_would_refuse(
    every_protocol: str, token: str, era: str, tmp_path: Path
) -> None:
    def inspect(*words: str) -> Any:
        options = ("--transport", "http", "--header", f"Authorization: Bearer {token}", "--protocol-era", era)
        command = node("inspector", "--cli", f"{every_protocol}/mcp", *options, "--format", "json", *words)
        return terminal.finished(command, env={"MCP_CATALOG_PATH": str(tmp_path / "mcp.json")}, cwd=tmp_path)

    listed = inspect("--method", "tools/list", "--strict")
    assert listed.returncode == 0, listed.stderr
    assert {"Calculator_Add", "Bridged_echo"} <= {tool["name"] for tool in json.loads(listed.stdout)["result"]["tools"]}
    arguments = ("--tool-args-json", '{"a": 2, "b": 40}')
    called = inspect("--method", "tools/call", "--tool-name", "Calculator_Add", *arguments)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout)["result"]["content"] == [{**TEXT, "text": "42"}]


def test_the_program_of_the_handbook_does_what_it_says(every_protocol: str, token: str) -> None:
    (program,) = blocks((DOCS / "mcp.md").read_text("utf-8"), "python", "mcp_agent.py")
    env = {"TOOLGATE_URL": every_protocol, "TOOLGATE_TOKEN": token}
    done = terminal.finished([installed("bin/python"), "-c", program.text], env=env)
    assert (done.returncode, done.stdout) == (0, "True\nFalse 42\n"), done.stderr
