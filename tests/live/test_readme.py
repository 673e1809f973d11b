"""What the README shows is true: its configurations load, its commands run, its files and tables exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway import config
from gateway.cli.examples import introduction
from gateway.dialects.fields import status_of
from gateway.dialects.recognise import DIALECTS
from gateway.errors import ErrorCode
from tests.live.cli.terminal import DEADLINE_S, ROOT, entered, environment, eventually, healthy, running, tool_server

README = (ROOT / "README.md").read_text("utf-8")
MAKE_RUNS = {"demo": "toolgate demo", "test": "-m pytest", "check": "mypy", "bench": "-m tests.bench"}
TOOLGATE = f'toolgate() {{ {shlex.quote(sys.executable)} -W error -m gateway "$@"; }}; '
ANY_PORT = "\nserver: {port: 0, admin: {port: 0}}\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    """Each command of the console blocks, and the output shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the shipped configurations, on free ports and in front of a tool server that is there."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "config", folder / "config")
    (folder / "gateway.yaml").write_text(blocks("yaml")[0])
    minimal = folder / "config/minimal.yaml"
    with tool_server() as url:
        minimal.write_text(minimal.read_text().replace("http://127.0.0.1:9101", url) + ANY_PORT)
        yield folder


def test_every_configuration_loads() -> None:
    assert blocks("yaml")
    for text in blocks("yaml"):
        config.read(text, env={"JWT_SECRET": "x" * 32})


def test_every_command_runs(workplace: Path) -> None:
    """In the order of the README, because one of them serves those that follow."""
    env = {"JWT_SECRET": "x" * 32}
    outputs: dict[str, str] = {}
    with ExitStack() as stack:
        for line, _ in commands():
            words = shlex.split(line, comments=True)
            if words[0] == "make":
                assert_made(words[1])
            elif words[1] == "serve":
                words[:1] = [sys.executable, "-m", "gateway"]
                command = stack.enter_context(running(words, env, workplace))
                (address,) = re.findall(r'"public":"([^"]+)"', command.wait_for('"message":"listening"'))
                env["TOOLGATE_URL"] = f"http://{address}"
                eventually(lambda: healthy(env["TOOLGATE_URL"]), line)
                stack.callback(command.ended)
                stack.callback(command.process.terminate)
            else:
                outputs[words[1]] = run(line, env, workplace)
    assert outputs["call"] == "42\n"
    assert outputs["token"].count(".") == 2


def run(line: str, env: dict[str, str], cwd: Path) -> str:
    """What a line prints in a POSIX shell."""
    done = subprocess.run(
        ["sh", "-c", TOOLGATE + line],
        env=environment(**env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def assert_made(target: str) -> None:
    """Whether the Makefile has a target that does what the README says; it is not run."""
    dry = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert dry.returncode == 0, dry.stderr
    assert MAKE_RUNS[target] in dry.stdout


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make (\w+)`", README))))
def test_every_make_target_in_the_text_exists(target: str) -> None:
    assert_made(target)


def test_the_output_shown_for_the_demonstration_is_its_own() -> None:
    shown = next(output for line, output in commands() if line == "make demo")
    urls = ("http://127.0.0.1:8080", "http://127.0.0.1:9464")
    printed = introduction(*urls, token="t", user="u", command="toolgate").splitlines()
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
    assert re.findall(r"^\| `/([\w-]+)` \|", README, re.MULTILINE) == list(DIALECTS)


def test_every_status_in_the_table_of_refusals_is_one_the_gateway_answers() -> None:
    _, _, table = README.partition("## What a refusal looks like")
    cells = re.findall(r"^\| ([\d, ]+)", table, re.MULTILINE)
    told = {int(status) for cell in cells for status in re.findall(r"\d+", cell)}
    answered = {status_of(code) for code in ErrorCode} - {404, 405}  # for paths and methods, not for calls
    assert told - {200} == answered
