"""What the kit finds at programs of others is what `docs/conformance.md` says it does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.tests.entering import entered
from tests.interop.programs import HERE, interpreter
from tests.support.processes import demo_server
from tests.support.terminal import ROOT
from toolgate_conformance.protocols import CLIENTS, SERVERS, Kind

JUDGED = Path(__file__).with_name("judged.py")
ID = re.compile(r"\b[A-Z]+-[0-9]{3}\b")
COUNTS = re.compile(r"(?:(?P<passed>[0-9]+) of|all) (?P<all>[0-9]+)")
UNCOUNTED = {("Toolgate, every dialect", "all five"), ("demonstration server for MCP", "`mcp`")}
ADD = ("--call", "add@1.0.0", '{"x": 1, "y": 2}')

Verdict = tuple[int, int, set[str]]  # how many checks passed, of how many, and the ids of those that failed


def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """What the page says, by program and protocol: how many checks passed, and what failed."""
    lines = (ROOT / "docs" / "conformance.md").read_text().partition("| program |")[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:] if line.startswith("|")]
    return {(program, protocol): (passed, failed) for program, protocol, passed, failed in cells}


def published(program: str, protocol: str) -> Verdict:
    """The verdict in the row of a program."""
    passed, failed = rows()[program, protocol]
    counts = COUNTS.fullmatch(passed)
    assert counts is not None
    return int(counts["passed"] or counts["all"]), int(counts["all"]), set(ID.findall(failed))


def verdict(*words: str) -> Verdict:
    """What the kit says."""
    report: dict[str, Any] = json.loads(entered(*words).stdout)
    failed = {check["id"] for check in report["checks"] if check["status"] == "failed"}
    return report["counts"]["passed"], len(report["checks"]), failed


def pinned(program: str) -> str:
    """The program and its version, as a row names them."""
    (line,) = (HERE / "requirements" / f"{program}.txt").read_text().splitlines()
    name, _, version = line.partition("==")
    return f"`{name}` {version}"


@pytest.mark.parametrize("protocol", ["lc", "otc"])
def test_a_server_of_others(tool_server: str, protocol: str) -> None:
    found = verdict("server", tool_server, "--protocol", protocol, *ADD, "--format", "json")
    assert found == published(pinned("universal-tool-server"), f"`{protocol}`")


def test_each_row_counts_all_checks_of_its_protocol() -> None:
    for program, protocol in rows().keys() - UNCOUNTED:
        kinds: Mapping[str, Kind[Any]] = CLIENTS if protocol.startswith("clients of ") else SERVERS
        name = protocol.removeprefix("clients of ").strip("`")
        assert published(program, protocol)[1] == len(kinds[name].checks()), (program, protocol)


SDK = f"{pinned('oxp')} (the SDK)"
FOREIGN_CLIENTS = [
    (SDK, "oxp-env", ("oxp",)),
    ("the same, for calls without ids", "oxp-env", ("oxp", "without-ids")),
    (pinned("universal-tool-client"), "lc", ("universal-tool-client",)),
]


@pytest.mark.parametrize(("program", "protocol", "words"), FOREIGN_CLIENTS, ids=lambda value: str(value))
def test_a_client_of_others(program: str, protocol: str, words: tuple[str, ...]) -> None:
    command = (interpreter(words[0]), str(JUDGED), *words)
    found = verdict("client", "--protocol", protocol, "--format", "json", "--", *command)
    assert found == published(program, f"clients of `{protocol}`")


SUM = ("--call", "Calculator.Add")
OFFICE = (*SUM, '{"a": 1, "b": 2}', *SUM, '{"a": 1, "b": 3}', "--call", "Calculator.Divide", '{"a": 1, "b": 0}')
NOTE = ("--call", "Notes.Create")
POSTBOX = (
    *(*NOTE, '{"text": "hello"}', *NOTE, '{"text": "good-bye"}', "--call", "Mail.Search", '{"query": "invoice"}'),
    *("--call", "Sms.Send", '{"to": "+4712345678", "text": "hello"}', "--context", '{"user_id": "ada"}'),
)
DEMONSTRATIONS = [
    ("demonstration server for OTC", "otc", "otc", OFFICE),
    ("demonstration server for OXP", "oxp", "oxp", POSTBOX),
    ("the same", "oxp", "oxp-env", POSTBOX),
]


@pytest.mark.parametrize(("program", "kind", "protocol", "calls"), DEMONSTRATIONS, ids=["otc", "oxp", "oxp-env"])
@pytest.mark.anyio
async def test_a_demonstration_server(program: str, kind: str, protocol: str, calls: tuple[str, ...]) -> None:
    async with demo_server(kind) as demo:
        command = ("server", demo.url, "--protocol", protocol, *calls, "--format", "json")
        found = await asyncio.to_thread(verdict, *command)
    assert found == published(program, f"`{protocol}`")
