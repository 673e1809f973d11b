"""The folders of a release, commands that must succeed, and comparing what two builds made."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
CONSTRAINTS = CHECKOUT / "constraints.txt"
RUN_S = 120.0
INSTALL_S = 600.0  # packages are fetched, on a busy machine
SHOWN = 2_000  # characters of what a program said before it failed
QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")


class MissingError(Exception):
    """An artefact is left out, because this machine lacks what it takes."""


class FailedError(Exception):
    """An artefact is not as it should be."""


@dataclass(frozen=True)
class Release:
    """One run: what is released, the second of its last change, and the folders in which this is done."""

    version: str
    epoch: int
    dist: Path
    copy: Path  # of the checkout
    work: Path
    packages: dict[str, str] = field(default_factory=dict)  # what the image has, once it was run

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a build: the time that archives get, and the versions that build them."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch), "PIP_CONSTRAINT": str(CONSTRAINTS)}


def run(
    *command: str | Path,
    folder: Path = CHECKOUT,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = RUN_S,
) -> str:
    """What a command prints. Raises FailedError where it does not succeed or end in time."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, cwd=folder, env=environment)
    except subprocess.TimeoutExpired:
        raise FailedError(f"{' '.join(words)} did not end within {timeout_s:g} s") from None
    if done.returncode:
        raise FailedError(
            f"{' '.join(words)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-SHOWN:]}"
        )
    return done.stdout


def beside_python(name: str) -> Path:
    """A program that was installed with the requirements of the tests of deployment."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise MissingError(f"{name} is not installed beside Python: run `make release`")
    return path


def git(*words: str) -> str:
    """What git says of the checkout."""
    if shutil.which("git") is None:
        raise MissingError("git is not installed (Debian: git)")
    return run("git", "-c", f"safe.directory={CHECKOUT}", *words).strip()


def copy_checkout(to: Path) -> None:
    """Copies what git would keep, so that nothing that a build left behind is in the copy."""
    for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (CHECKOUT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, to / name, follow_symlinks=False)


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def must_be_same(first: Path, second: Path) -> None:
    """Compares what two builds made. Raises FailedError."""
    if first.name != second.name or digest(first) != digest(second):
        raise FailedError(f"two builds of {first.name} differ: {digest(first)} and {digest(second)}")


def empty_environment(folder: Path, *what: str) -> Path:
    """Makes an environment that has only what is asked for, in the tested versions; not even a pip. Gives its `bin`."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    pinned = (*QUIET, f"--constraint={CONSTRAINTS}")
    run(sys.executable, "-m", "pip", f"--python={folder}", "install", *pinned, *what, timeout_s=INSTALL_S)
    return folder / "bin"
