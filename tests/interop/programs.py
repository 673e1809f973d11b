"""Runs the programs of others, each on the interpreter of its environment under `.venvs/`.

A missing environment fails a test with the command that builds it: a skip would leave the promise untested and the run
green.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import ROOT, finished

HERE = Path(__file__).parent
BUILT_BY = "make interop"

Step = tuple[str, dict[str, Any]]
Outcome = dict[str, Any]


def interpreter(environment: str) -> str:
    """The Python of one environment; fails the test when it has not been built."""
    python = ROOT / ".venvs" / environment / "bin" / "python"
    if not python.exists():
        pytest.fail(f"The environment .venvs/{environment} is missing; `{BUILT_BY}` builds it.", pytrace=False)
    return str(python)


def drive(client: str, base_url: str, token: str, *steps: Step) -> list[Outcome]:
    """Lets a client, `oxp` or `universal-tool-client`, take the steps one after the other."""
    command = [interpreter(client), str(HERE / "drive.py"), client, base_url]
    done = finished(command, env={"TOOL_TOKEN": token}, stdin=json.dumps(steps))
    assert done.returncode == 0, f"{client} ended with {done.returncode}:\n{done.stderr}"
    outcomes: list[Outcome] = json.loads(done.stdout)
    return outcomes
