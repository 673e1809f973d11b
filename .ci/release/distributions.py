"""Wheel and sdist."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from release.tools import CHECKOUT, INSTALL_S, FailedError, Release, beside_python, empty_environment, must_be_same, run


def build(release: Release) -> str:
    """Builds both twice, compares them, and installs each into an environment of its own, from which it is run."""
    names = (f"toolgate-{release.version}-py3-none-any.whl", f"toolgate-{release.version}.tar.gz")
    first, second = release.work / "first", release.work / "second"
    for source, folder in ((CHECKOUT, first), (release.copy, second)):
        command = (sys.executable, "-m", "build", f"--outdir={folder}", source)
        run(*command, environment=release.environment, timeout_s=INSTALL_S)
        if {file.name for file in folder.iterdir()} != {*names}:
            raise FailedError(
                f"{', '.join(sorted(file.name for file in folder.iterdir()))} were built instead of {names}"
            )
    for name in names:
        must_be_same(first / name, second / name)
    run(beside_python("twine"), "--no-color", "check", "--strict", *(first / name for name in names))
    for name in names:
        _try(first / name, release)
    for name in names:  # only what was tried
        shutil.copy(first / name, release.dist / name)
    return f"{' and '.join(names)}: two builds are the same, and each runs in an empty environment"


def _try(file: Path, release: Release) -> None:
    folder = release.work / f"environment-{file.suffix[1:]}"
    toolgate = empty_environment(folder, str(file)) / "toolgate"
    said = run(toolgate, "--version", folder=folder, environment={})
    if said != f"toolgate {release.version}\n":
        raise FailedError(f"{file.name} says {said!r} when asked for its version")
    shutil.copy(CHECKOUT / "config/minimal.yaml", folder)
    said = run(toolgate, "check", "minimal.yaml", folder=folder, environment={})
    if "good" not in said:
        raise FailedError(f"{file.name} says {said!r} of config/minimal.yaml")
