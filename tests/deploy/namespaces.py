"""A network of our own: processes in it listen on their usual ports, invisible to others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.tools import CHECKOUT, RUN_S, beside_python, need_namespaces

FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"
# ioctl(SIOCSIFFLAGS, lo, UP | RUNNING | LOOPBACK), since `ip` may not be installed; then until its input ends.
HOLD = """
import fcntl, socket, struct, subprocess, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0x49))
subprocess.run(['mount', '--bind', sys.argv[1], '/etc/hosts'], check=True)
print('ready', flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Network:
    """The namespaces of a process that runs in them."""

    pid: int
    mounts: bool = False

    def inside(self, *command: str) -> list[str]:
        """The command that runs another one in there."""
        return ["nsenter", f"--target={self.pid}", "--net", *(["--mount"] if self.mounts else []), "--", *command]

    def output(self, *command: str, env: Mapping[str, str] | None = None, timeout_s: float = RUN_S) -> str:
        """What a command prints in there; it must succeed."""
        words = self.inside(*command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, env=env, cwd=CHECKOUT)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def fetch(self, url: str) -> str | None:
        """The body of a page; None as long as there is none."""
        words = self.inside(beside_python("python"), "-c", FETCH, url)
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S)
        return done.stdout if done.returncode == 0 else None


@contextmanager
def network(folder: Path, hosts: Sequence[str]) -> Iterator[Network]:
    """A network with nothing but loopback, where all `hosts` are; `folder` is for a file."""
    need_namespaces()
    file = folder / "hosts"
    file.write_text("".join(f"127.0.0.1 {host}\n" for host in ("localhost", *hosts)))
    command = ["unshare", "--net", "--mount", beside_python("python"), "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield Network(holder.pid, mounts=True)
        assert holder.stdin is not None
        holder.stdin.close()
