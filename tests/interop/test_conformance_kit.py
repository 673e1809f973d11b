"""What `toolgate conformance` finds at programs of others is what `docs/conformance.md` says it does."""

from __future__ import annotations

import json
import re

import pytest

from tests.interop.programs import HERE, interpreter
from tests.support.terminal import ROOT, entered

pytestmark = pytest.mark.planted

ID = re.compile(r"\b[A-Z]+-[0-9]{3}\b")
ADD = ("--call", "add@1.0.0", '{"x": 1, "y": 2}')


def published(program: str, protocol: str) -> set[str]:
    """The ids that fail, by the row of a program."""
    text = (ROOT / "docs" / "conformance.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    (failed,) = (row[3] for row in rows if row[:2] == [program, protocol])
    return set(ID.findall(failed))


def failed(*words: str) -> set[str]:
    """The ids of the checks that fail."""
    done = entered("conformance", *words)
    report = json.loads(done.stdout)
    return {check["id"] for check in report["checks"] if check["status"] == "failed"}


@pytest.mark.parametrize("protocol", ["lc", "otc"])
def test_a_server_of_others(tool_server: str, protocol: str) -> None:
    found = failed("server", tool_server, "--protocol", protocol, *ADD, "--format", "json")
    assert found == published("`universal-tool-server` 0.0.3", f"`{protocol}`")


CLIENTS = [
    ("`oxp` 0.1.1 (the SDK)", "oxp-env", ("oxp",)),
    ("the same, for calls without ids", "oxp-env", ("oxp", "without-ids")),
    ("`universal-tool-client` 0.0.2", "lc", ("universal-tool-client",)),
]


@pytest.mark.parametrize(("program", "protocol", "words"), CLIENTS, ids=lambda value: str(value))
def test_a_client_of_others(program: str, protocol: str, words: tuple[str, ...]) -> None:
    command = (interpreter(words[0]), str(HERE / "judged.py"), *words)
    found = failed("client", "--protocol", protocol, "--format", "json", "--", *command)
    assert found == published(program, f"clients of `{protocol}`")
