"""Both distributions: built, looked into, installed into environments that have nothing else, and run from there."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import urlsplit

import helm_python
import pytest
from packaging.utils import canonicalize_name

from gateway import __version__
from gateway.demo.fleet import SERVERS
from release.chart import pack
from tests.deploy import charts
from tests.deploy.tools import CHECKOUT, beside_python, output, program
from tests.pins import CONSTRAINTS, differing, installed_for, required, requirements
from tests.support.demonstration import LAST_LINE, read_screen
from tests.support.terminal import gone, running

INSTALL_S = 300.0  # both are built in environments of their own, for which packages are fetched; on a busy machine
STOP_S = 20.0
FILES = (
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "Makefile",
    "Dockerfile",
)
HIDDEN = (".ci/run", ".dockerignore", ".gitignore")
FOLDERS = (".ci/release", ".github", "gateway", "config", "docs", "helm", "tests")


@dataclass(frozen=True)
class Built:
    """The two files."""

    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel that is built from it: what the sdist lacks, the wheel has not got."""
    folder = tmp_path_factory.mktemp("dist")
    output(beside_python("python"), "-m", "build", f"--outdir={folder}", str(CHECKOUT), timeout_s=INSTALL_S)
    made = Built(folder / f"toolgate-{__version__}-py3-none-any.whl", folder / f"toolgate-{__version__}.tar.gz")
    assert {made.wheel, made.sdist} == set(folder.iterdir())
    return made


def _below(*folders: str) -> Iterator[str]:
    """All files of some folders of the checkout, but for what Python has compiled."""
    for folder in folders:
        for file in (CHECKOUT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(CHECKOUT).as_posix()


def test_these_tests_run_on_the_constrained_versions() -> None:
    lines = requirements(Path(__file__).with_name("requirements.txt"))
    assert differing(installed_for([*required("dev"), *lines])) == {}


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist()}
    about = f"toolgate-{__version__}.dist-info/"
    assert {name for name in held if not name.startswith(about)} == set(_below("gateway"))
    assert f"{about}licenses/LICENSE" in held
    assert b"](docs/" not in held[f"{about}METADATA"]  # where the README is read there, no file is beside it
    for name in _below("gateway"):
        assert held[name] == (CHECKOUT / name).read_bytes(), name


def test_the_sdist_holds_all_that_builds_tests_and_deploys_it(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        held = {member.name.partition("/")[2] for member in sdist if not member.isdir()}
    assert {*FILES, *HIDDEN, *_below(*FOLDERS)} <= held
    assert not {name for name in held if "__pycache__" in name or name.startswith((".venv", ".git/", "dist/"))}


def test_an_index_would_take_both(built: Built) -> None:
    said = output(beside_python("twine"), "--no-color", "check", "--strict", str(built.wheel), str(built.sdist))
    assert said.count("PASSED") == 2


@dataclass(frozen=True)
class Environment:
    """An environment with Toolgate in it, and nothing that Toolgate does not ask for."""

    folder: Path

    @property
    def toolgate(self) -> str:
        return str(self.folder / "bin/toolgate")

    def distributions(self) -> dict[str, str]:
        (library,) = self.folder.glob("lib/python*/site-packages")
        return {canonicalize_name(one.name): one.version for one in distributions(path=[str(library)])}


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def environment(request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for each distribution. Installed by the pip of these tests, so that not even a pip is in there."""
    folder = tmp_path_factory.mktemp(request.param)
    python = beside_python("python")
    output(python, "-m", "venv", "--without-pip", str(folder))
    options = ("--quiet", "--disable-pip-version-check", "--no-input", f"--constraint={CONSTRAINTS}")
    file = str(getattr(built, request.param))
    output(python, "-m", "pip", f"--python={folder}", "install", *options, file, timeout_s=INSTALL_S)
    return Environment(folder)


def _run(command: Sequence[str], folder: Path) -> str:
    """What a command prints that is run in a folder and without any variable; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=STOP_S, cwd=folder, env={})
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_what_is_installed_with_it_are_the_constrained_versions(environment: Environment) -> None:
    found = environment.distributions()
    assert found.pop("toolgate") == __version__
    assert found.keys() == installed_for(required()).keys()
    assert differing(found) == {}


def test_installed_it_prints_its_version_and_checks_a_configuration(environment: Environment, tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "config/minimal.yaml", tmp_path)
    assert _run([environment.toolgate, "--version"], tmp_path) == f"toolgate {__version__}\n"
    assert "good" in _run([environment.toolgate, "check", "minimal.yaml"], tmp_path)


def test_the_demonstration_runs_in_an_empty_folder_and_leaves_it_empty(
    environment: Environment, tmp_path: Path
) -> None:
    """The only variable it has says where its temporary files would be."""
    curl, work, temporary = program("curl", "curl"), tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    with running(["env", "-i", f"TMPDIR={temporary}", environment.toolgate, "demo", "--port", "0"], cwd=work) as demo:
        demo.wait_for(LAST_LINE)
        shown = read_screen(demo.out.decode())
        expected, line = re.findall(r"^# .* -> (\d+).*\n(curl .*)$", shown.screen, re.MULTILINE)[0]
        done = subprocess.run(
            ["sh", "-c", line],
            env={"PATH": str(Path(curl).parent), **shown.env},
            capture_output=True,
            text=True,
            timeout=STOP_S,
        )
        assert done.stdout.rstrip().endswith(expected), done.stderr
        servers = demo.children()
        assert len(servers) == len(SERVERS)
        demo.interrupt()
        assert demo.ended() == 0
    assert gone(servers)
    assert demo.err == b""
    assert [*work.iterdir(), *temporary.iterdir()] == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", urlsplit(shown.url).port or 0)) != 0  # the port is free again


def test_helm_takes_the_package_of_the_chart_wherever_it_is_packed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    shutil.copytree(CHECKOUT / "helm/toolgate", there / "toolgate", copy_function=shutil.copyfile)  # with other times
    for number, folder in enumerate((CHECKOUT / "helm", there)):
        pack(folder / "toolgate", tmp_path / f"{number}.tgz", 1_700_000_000)
    assert (tmp_path / "0.tgz").read_bytes() == (tmp_path / "1.tgz").read_bytes()
    with helm_python.Chart.load(tmp_path / "0.tgz") as chart:
        assert chart.render(charts.values("minimal"), name="prod", namespace="tools")
