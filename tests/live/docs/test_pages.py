"""The commands of the handbook work, and print what it shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.cli.demo import introduction
from tests.live.docs.conftest import Site
from tests.live.docs.terminal import Terminal, assert_made
from tests.support.markdown import DOCS, PAGES, blocks, commands, prose
from tests.support.terminal import DEADLINE_S, ROOT, environment

WITH_COMMANDS = [page for page in PAGES if blocks(page.read_text("utf-8"), "console", "")]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_does_what_it_is_said_to_do(page: Path, site: Site, tmp_path: Path) -> None:
    """In the order of the page, in one terminal, in a folder with what is made by commands, and the configurations."""
    for folder in ("config", "docs", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, dict(site.env), dict(site.ports), stack)
        for block in blocks(page.read_text("utf-8")):
            if block.mark.endswith((".yaml", ".py")) and "/" not in block.mark:  # else it is part of the package
                terminal.write(block.mark, block.text)
            elif (block.language, block.mark) == ("console", ""):
                for command in commands(block.text):
                    terminal.enter(command)
    for made in ("config/gateway.schema.json", "docs/configuration.md"):
        assert (tmp_path / made).read_text("utf-8") == (ROOT / made).read_text("utf-8")


def test_the_program_of_the_handbook_repeats_a_failing_tool_a_few_times(site: Site, tmp_path: Path) -> None:
    """It says that it may be repeated, each time, and after half a second: that is no reason to do so for ever."""
    (program,) = blocks((DOCS / "calling.md").read_text("utf-8"), "python", "agent.py")
    before = executions(site, "Doorbell.Ring")
    file = tmp_path / "agent.py"
    file.write_text(program.text)
    done = subprocess.run(
        [sys.executable, str(file)],
        env=environment(**site.env),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert executions(site, "Doorbell.Ring") == before + 3


def executions(site: Site, tool: str) -> int:
    """How often a tool of the office has run."""
    with urllib.request.urlopen(f"http://127.0.0.1:{site.ports['9101']}/executions", timeout=DEADLINE_S) as reply:
        counts: dict[str, int] = json.load(reply)
    return sum(count for tool_id, count in counts.items() if tool_id.partition("@")[0] == tool)


def test_the_screen_of_the_demonstration_is_its_own() -> None:
    text = (DOCS / "quick-start.md").read_text("utf-8")
    (shown,) = (
        command.shown
        for block in blocks(text, "console")
        for command in commands(block.text)
        if command.line == "make demo"
    )
    screen = introduction("http://127.0.0.1:8080", "http://127.0.0.1:9464", token="t", command="toolgate")
    for line in shown:
        assert line in ("", "...") or line in screen.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    for target in set(re.findall(r"`make ([\w-]+)`", prose(page.read_text("utf-8")))):
        assert_made(target)
