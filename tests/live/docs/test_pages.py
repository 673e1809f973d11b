"""What the handbook tells to type works, and shows what it is said to show."""

from __future__ import annotations

import re
import shutil
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.cli.examples import introduction
from tests.live.cli.terminal import DEADLINE_S, ROOT
from tests.live.docs.conftest import Site
from tests.live.docs.terminal import Terminal, assert_made
from tests.unit.docs.markdown import DOCS, PAGES, blocks, commands, prose

WITH_COMMANDS = [page for page in PAGES if blocks(page.read_text("utf-8"), "console", "")]
QUERIED = re.compile(r"\btoolgate_\w+")


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_does_what_it_is_said_to_do(page: Path, site: Site, tmp_path: Path) -> None:
    """In the order of the page, in one terminal, in a folder with what is made by commands, and the configurations."""
    for folder in ("config", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, dict(site.env), dict(site.ports), stack)
        for block in blocks(page.read_text("utf-8")):
            if block.mark.endswith((".yaml", ".py")):
                terminal.write(block.mark, block.text)
            elif (block.language, block.mark) == ("console", ""):
                for command in commands(block.text):
                    terminal.enter(command)
    for made in ("config/gateway.schema.json", "docs/configuration.md"):
        assert (tmp_path / made).read_text("utf-8") == (ROOT / made).read_text("utf-8")


def test_the_screen_of_the_demonstration_is_its_own() -> None:
    text = (DOCS / "quick-start.md").read_text("utf-8")
    (shown,) = (
        command.shown
        for block in blocks(text, "console")
        for command in commands(block.text)
        if command.line == "make demo"
    )
    screen = introduction("http://127.0.0.1:8080", "http://127.0.0.1:9464", token="t", user="u", command="toolgate")
    for line in shown:
        assert line in ("", "...") or line in screen.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    for target in set(re.findall(r"`make ([\w-]+)`", prose(page.read_text("utf-8")))):
        assert_made(target)


def test_every_metric_that_is_asked_for_is_shown_by_a_gateway(site: Site) -> None:
    with urllib.request.urlopen(f"{site.admin_url}/metrics", timeout=DEADLINE_S) as reply:
        text = reply.read().decode()
    shown = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    queries = [block.text for page in PAGES for block in blocks(page.read_text("utf-8"), "promql")]
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for query in queries for name in QUERIED.findall(query)}
    assert asked
    assert asked <= shown
