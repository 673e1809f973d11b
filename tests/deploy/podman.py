"""Images that podman builds, and containers that it runs, in a store of their own that is thrown away.

No registry is asked for the base image: a Debian with the same Python is put together in its place, under its name. So
the Dockerfile is built as it is, but nothing here can be said about the size or the contents of the official base.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.deploy.tools import CHECKOUT, need_namespaces, program

BUILD_S = 420.0  # packages are fetched and unpacked, on a busy machine
RUN_S = 60.0
BASE = "python:3.14-slim-trixie"
DEBIAN = "forky"  # the first with that Python
KEPT_S = 86_400.0
STAND_IN = (
    "--variant=minbase",
    "--include=python3,python3-venv,ca-certificates",
    '--aptopt=Acquire::Check-Valid-Until "false"',  # mirrors of a release to come may lag behind
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    '--customize-hook=ln -s /usr/bin/python3 "$1/usr/local/bin/python"',
)
# Containers of root share the control groups of the machine, of which podman understands one form only. This shows it
# that form, in a mount namespace of its own.
IN_OUR_GROUPS = 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'


@dataclass(frozen=True)
class Podman:
    """One store."""

    folder: Path

    def command(self, *words: str) -> list[str]:
        stores = (f"--root={self.folder}/store", f"--runroot={self.folder}/run")
        return [program("podman", "podman"), *stores, "--storage-driver=overlay", "--cgroup-manager=cgroupfs", *words]

    def output(self, *words: str, timeout_s: float = RUN_S) -> str:
        """What a command prints; it must succeed."""
        done = self._run(self.command(*words), timeout_s)
        assert done.returncode == 0, f"podman {words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def inspect(self, what: str) -> Any:
        return json.loads(self.output("inspect", what))[0]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Starts a container without a network; `words` begin with further options of `podman run`."""
        files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 20_000)
        limits = (f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=4096:4096")  # podman's own may be above ours
        options = ("--pull=never", "--cgroups=disabled", "--network=none", *limits)
        command = self.command("run", *options, *words)
        return self._run(["unshare", "--mount", "sh", "-c", IN_OUR_GROUPS, "sh", *command], RUN_S)

    def build(self, folder: Path, tag: str, *options: str) -> None:
        """Builds an image without asking any registry for another."""
        words = ("build", "--quiet", "--isolation=chroot", "--format=docker", "--pull=never", "--layers=false")
        self.output(*words, *options, f"--tag={tag}", str(folder), timeout_s=BUILD_S)

    def _run(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=CHECKOUT)


def put_together(podman: Podman) -> None:
    """Makes the base image of a Debian with the same Python."""
    podman.output("import", "--quiet", str(_debian()), BASE, timeout_s=BUILD_S)
    need_containers(podman, BASE)


def _debian() -> Path:
    """The files of a Debian, kept for a day beside the programs of these tests: a release takes them too."""
    program("mmdebstrap", "mmdebstrap")
    recipe = hashlib.sha256(" ".join((*STAND_IN, DEBIAN)).encode()).hexdigest()[:16]
    file = Path(sys.prefix) / f"debian-{recipe}.tar"
    if file.exists() and time.time() - file.stat().st_mtime < KEPT_S:
        return file
    with TemporaryDirectory(prefix="toolgate-debian-", dir=sys.prefix) as folder:
        archive = Path(folder) / "debian.tar"
        command = ["mmdebstrap", "--quiet", *STAND_IN, DEBIAN, str(archive)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S)
        if process.returncode:
            pytest.skip(f"no base image can be put together here: {process.stderr.strip()[-300:]}")
        return archive.replace(file)


def need_containers(podman: Podman, image: str) -> None:
    """Skips the test where podman runs nothing."""
    tried = podman.run("--rm", "--entrypoint=true", image)
    if tried.returncode:
        pytest.skip(f"podman runs no containers here: {tried.stderr.strip()[-300:]}")


@contextmanager
def store(base: Callable[[Podman], None] = put_together) -> Iterator[Podman]:
    """A store with what `base` puts into it, the base image; skips the test where containers cannot be had."""
    need_namespaces()
    program("podman", "podman")
    with TemporaryDirectory(prefix="toolgate-podman-", dir="/tmp") as folder:  # it takes paths of 50 characters at most
        podman = Podman(Path(folder))
        try:
            base(podman)
            yield podman
        finally:
            podman.output("rm", "--all", "--force", "--time=0")
