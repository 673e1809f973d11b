"""What the README shows is true: its configurations load, its commands run, its files and tables exist."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway import config
from gateway.cli.demo import introduction
from gateway.dialects.fields import STATUSES
from gateway.dialects.recognise import DIALECTS
from gateway.errors import ErrorCode
from tests.live.docs.terminal import ANY_PORT, USUAL, Terminal, assert_made
from tests.support.markdown import blocks, commands
from tests.support.terminal import ROOT, entered, tool_server

README = (ROOT / "README.md").read_text("utf-8")
CONFIGURATIONS = [block.text for block in blocks(README, "yaml")]
COMMANDS = [command for block in blocks(README, "console") for command in commands(block.text)]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the shipped configurations, on free ports and in front of a tool server that is there."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "config", folder / "config")
    (folder / "gateway.yaml").write_text(CONFIGURATIONS[0])
    minimal = folder / "config/minimal.yaml"
    with tool_server() as url:
        minimal.write_text(minimal.read_text().replace("http://127.0.0.1:9101", url) + ANY_PORT)
        yield folder


def test_every_configuration_loads() -> None:
    assert CONFIGURATIONS
    for text in CONFIGURATIONS:
        config.read(text, env={"JWT_SECRET": "x" * 32})


def test_every_command_runs(workplace: Path) -> None:
    """In the order of the README, because one of them serves those that follow."""
    printed: dict[str, str] = {}
    with ExitStack() as stack:
        terminal = Terminal(workplace, {"JWT_SECRET": "x" * 32}, {}, stack)
        for command in COMMANDS:
            word = command.line.split()[1]
            printed[word] = terminal.enter(command)
            if word == "serve":
                terminal.env["TOOLGATE_URL"] = f"http://127.0.0.1:{terminal.ports[USUAL]}"
    assert printed["call"] == "42\n"
    assert printed["token"].count(".") == 2


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make (\w+)`", README))))
def test_every_make_target_in_the_text_exists(target: str) -> None:
    assert_made(target)


def test_the_output_shown_for_the_demonstration_is_its_own() -> None:
    shown = next(command.shown for command in COMMANDS if command.line == "make demo")
    urls = ("http://127.0.0.1:8080", "http://127.0.0.1:9464")
    printed = introduction(*urls, token="t", command="toolgate").splitlines()
    for line in shown:
        assert line in ("", "...") or line in printed


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_configuration_is_good(path: Path) -> None:
    done = entered("check", str(path), "--allow-missing-env")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_demonstration_s_configuration_is_shipped_once() -> None:
    assert (ROOT / "config/demo.yaml").resolve() == ROOT / "gateway/demo/demo.yaml"


def test_every_file_it_names_exists() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    names = re.findall(r"`([\w./-]+\.(?:py|ya?ml|json|md))`", README)
    assert names
    for name in links + names:
        assert (ROOT / name).exists(), name


def test_the_table_of_dialects_is_complete() -> None:
    assert re.findall(r"^\| `/([\w-]+)` \|", README, re.MULTILINE) == [*DIALECTS, "mcp"]


def test_every_status_in_the_table_of_refusals_is_one_the_gateway_answers() -> None:
    _, _, table = README.partition("## What a refusal looks like")
    cells = re.findall(r"^\| ([\d, ]+)", table, re.MULTILINE)
    told = {int(status) for cell in cells for status in re.findall(r"\d+", cell)}
    answered = {STATUSES[code] for code in ErrorCode} - {404, 405, 503}  # for paths, methods and lists, not for calls
    assert told - {200} == answered
