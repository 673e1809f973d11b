"""Wheels and sdists: of the gateway, and of the conformance kit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from release.tools import (
    CHECKOUT,
    INSTALL_S,
    RUN_S,
    FailedError,
    Release,
    beside_python,
    empty_environment,
    must_be_same,
    run,
)
from tests.pins import differing, installed_for, required
from tests.support.demonstration import LAST_LINE, read_screen
from tests.support.terminal import gone, running

KIT = "conformance"
FOLDERS = (".ci/release", ".github", KIT, "gateway", "config", "docs", "helm", "tests")
FILES = {
    *("pyproject.toml", "constraints.txt", "Makefile", "Dockerfile", ".ci/run", ".dockerignore", ".gitignore"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
}
UNWANTED = (".venv", ".git/", "dist/")


def build(release: Release) -> str:
    """Builds both twice, compares them, and installs each into an environment of its own, from which it is run."""
    names = (wheel_of(release).name, f"toolgate_gateway-{release.version}.tar.gz")
    kit = (f"toolgate_conformance-{release.version}-py3-none-any.whl", f"toolgate_conformance-{release.version}.tar.gz")
    first, second = release.work / "first", release.work / "second"
    kits = first / KIT, second / KIT
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(_build, release, names), (CHECKOUT, release.copy), (first, second)))
        list(pool.map(partial(_build, release, kit), (CHECKOUT / KIT, release.copy / KIT), kits))
        for name in kit:
            must_be_same(kits[0] / name, kits[1] / name)
        run(beside_python("twine"), "--no-color", "check", "--strict", *(kits[0] / name for name in kit))
        list(pool.map(lambda name: _try_kit(kits[0] / name, release), kit))
        for name in names:
            must_be_same(first / name, second / name)
        run(beside_python("twine"), "--no-color", "check", "--strict", *(first / name for name in names))
        _look_into_wheel(first / names[0], release.version)
        _look_into_sdist(first / names[1])
        list(pool.map(lambda name: _try(first / name, release), names))
    for file in (*(first / name for name in names), *(kits[0] / name for name in kit)):  # only what was tried
        shutil.copy(file, release.dist / file.name)
    return f"{', '.join((*names, *kit))}: two builds are the same, and each runs in an empty environment"


def wheel_of(release: Release) -> Path:
    """Where the wheel of the gateway is, once it was built and tried."""
    return release.dist / f"toolgate_gateway-{release.version}-py3-none-any.whl"


def _build(release: Release, names: tuple[str, str], source: Path, folder: Path) -> None:
    run(
        *(sys.executable, "-m", "build", f"--outdir={folder}", source),
        environment=release.environment,
        timeout_s=INSTALL_S,
    )
    built = sorted(file.name for file in folder.iterdir() if file.is_file())
    if set(built) != {*names}:
        raise FailedError(f"{', '.join(built)} were built instead of {names}")


def _below(*folders: str) -> Iterator[str]:
    """All files of some folders of the checkout, but for what Python has compiled."""
    for folder in folders:
        for file in (CHECKOUT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(CHECKOUT).as_posix()


def _look_into_wheel(file: Path, version: str) -> None:
    """A wheel holds the package as it is here, the license, and a README with no link to a file beside it."""
    about = f"toolgate_gateway-{version}.dist-info/"
    with zipfile.ZipFile(file) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    package = {name: (CHECKOUT / name).read_bytes() for name in _below("gateway")}
    if {name: content for name, content in contents.items() if not name.startswith(about)} != package:
        raise FailedError(f"{file.name} holds other files than gateway/")
    if f"{about}licenses/LICENSE" not in contents or b"](docs/" in contents[f"{about}METADATA"]:
        raise FailedError(f"{file.name} has no license, or links to files that it does not have")


def _look_into_sdist(file: Path) -> None:
    """An sdist holds all that builds, tests and deploys it, and nothing that was made here."""
    with tarfile.open(file) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if not member.isdir()}
    if missing := {*FILES, *_below(*FOLDERS)} - names:
        raise FailedError(f"{file.name} lacks {sorted(missing)[:10]}")
    if unwanted := [name for name in names if "__pycache__" in name or name.startswith(UNWANTED)]:
        raise FailedError(f"{file.name} holds {sorted(unwanted)[:10]}")


def _try(file: Path, release: Release) -> None:
    folder = release.work / f"environment-{file.suffix[1:]}"
    toolgate = empty_environment(folder, str(file)) / "toolgate"
    (library,) = folder.glob("lib/python*/site-packages")
    packages: dict[str, str] = {
        canonicalize_name(package.name): package.version for package in distributions(path=[str(library)])
    }
    if packages.keys() != {"toolgate-gateway", *installed_for(required())} or differing(packages):
        raise FailedError(f"with {file.name} come other packages than constraints.txt has: {sorted(packages.items())}")
    text = run(toolgate, "--version", folder=folder, environment={})
    if text != f"toolgate {release.version}\n":
        raise FailedError(f"{file.name} says {text!r} when asked for its version")
    shutil.copy(CHECKOUT / "config/minimal.yaml", folder)
    text = run(toolgate, "check", "minimal.yaml", folder=folder, environment={})
    if "good" not in text:
        raise FailedError(f"{file.name} says {text!r} of config/minimal.yaml")
    try:
        _try_demonstration(toolgate, release.work / f"demonstration-{file.suffix[1:]}")
    except AssertionError as exc:
        raise FailedError(f"the demonstration of {file.name} fails: {exc}") from exc


def _try_kit(file: Path, release: Release) -> None:
    """Runs the kit where there is no gateway: it says its version, and judges a client by every check."""
    folder = release.work / f"environment-kit-{file.suffix[1:]}"
    kit = empty_environment(folder, str(file)) / "toolgate-conformance"
    if list(folder.glob("lib/python*/site-packages/gateway")):
        raise FailedError(f"with {file.name} comes a gateway")
    text = run(kit, "--version", folder=folder, environment={})
    if text != f"toolgate-conformance {release.version}\n":
        raise FailedError(f"{file.name} says {text!r} when asked for its version")
    program = "import os, urllib.request; urllib.request.urlopen(os.environ['TOOLGATE_KIT_URL'] + '/tools')"
    command = ("client", "--protocol", "oxp", "--only", "OXPC-001", "--", sys.executable, "-c", program)
    text = run(kit, *command, folder=folder, environment={})
    if "1 passed, 0 failed" not in text:
        raise FailedError(f"{file.name} says {text!r} of a client that asks for the list")


def _try_demonstration(toolgate: Path, folder: Path) -> None:
    """Runs the demonstration in an empty folder, does the first call that it shows, and looks at what it leaves."""
    curl, work, temporary = shutil.which("curl") or "", folder / "work", folder / "temporary"
    work.mkdir(parents=True)
    temporary.mkdir()
    command = ["env", "-i", f"TMPDIR={temporary}", str(toolgate), "demo", "--port", "0"]
    with running(command, cwd=work) as demo:
        demo.wait_for(LAST_LINE)
        screen = read_screen(demo.out.decode())
        expected, line = re.findall(r"^# .* -> (\d+).*\n(curl .*)$", screen.screen, re.MULTILINE)[0]
        environment = {"PATH": str(Path(curl).parent), **screen.env}
        command = ["/bin/sh", "-c", line]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_S)
        assert answer.stdout.rstrip().endswith(expected), answer.stderr
        servers = demo.children()
        demo.interrupt()
        assert demo.ended() == 0, "it does not end well"
    assert gone(servers), "it leaves tool servers behind"
    assert demo.err == b"", demo.err
    assert [*work.iterdir(), *temporary.iterdir()] == [], "it leaves files behind"
