"""What the README shows is true: its configurations load, its commands run, its files exist."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.cli.demo import introduction
from gateway.settings import load as config
from tests.live.docs.terminal import ANY_PORT, USUAL, Terminal, assert_made
from tests.support.markdown import blocks, commands, links
from tests.support.terminal import ROOT

README = (ROOT / "README.md").read_text("utf-8")
CONFIGURATIONS = [block.text for block in blocks(README, "yaml")]
COMMANDS = [command for block in blocks(README, "console") for command in commands(block.text)]


def test_every_configuration_loads() -> None:
    assert CONFIGURATIONS
    for text in CONFIGURATIONS:
        config.read(text, env={"JWT_SECRET": "x" * 32})


def test_every_command_runs(tmp_path: Path) -> None:
    """In the order of the README: one makes the configuration and the key that the others use."""
    file = tmp_path / "gateway.yaml"
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, {}, {}, stack)
        for command in COMMANDS:
            printed = terminal.enter(command)
            if command.line.startswith("toolgate init"):
                file.write_text(file.read_text() + ANY_PORT)
                (terminal.env["TOOLGATE_TOKEN"],) = re.findall(r"export TOOLGATE_TOKEN=(\w+)", printed)
            elif command.line.startswith("toolgate serve"):
                terminal.env["TOOLGATE_URL"] = f"http://127.0.0.1:{terminal.ports[USUAL]}"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([\w-]+)`", README))))
def test_every_make_target_in_the_text_exists(target: str) -> None:
    assert_made(target)


def test_the_output_shown_for_the_demonstration_is_its_own() -> None:
    shown = next(command.shown for command in COMMANDS if command.line == "make demo")
    urls = ("http://127.0.0.1:8080", "http://127.0.0.1:9464")
    printed = introduction(*urls, token="t", command="toolgate").splitlines()
    for line in shown:
        assert line in ("", "...") or line in printed


def test_the_demonstration_s_configuration_is_shipped_once() -> None:
    assert (ROOT / "config/demo.yaml").resolve() == ROOT / "gateway/demo/demo.yaml"


def test_every_file_it_names_exists() -> None:
    named = [link for link in links(README) if "://" not in link]
    assert named
    for name in named:
        assert (ROOT / name).exists(), name
