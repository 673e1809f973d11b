"""A reader's terminal: the commands of a page are typed, and their output is compared with what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from gateway.__main__ import main
from tests.support.markdown import Command
from tests.support.terminal import DEADLINE_S, ROOT, Running, environment, eventually, healthy, own_logging, running

PYTHON = shlex.quote(sys.executable)
PROGRAMS = f'toolgate() {{ {PYTHON} -W error -m gateway "$@"; }}; python() {{ {PYTHON} "$@"; }}; '
MAKE_RUNS = {
    "demo": "toolgate demo",
    "test": "-m pytest",
    "test-deploy": "tests/deploy",
    "test-soak": "soak",
    "check": "mypy",
    "bench": "-m tests.bench",
    "bench-quick": "-m tests.bench --quick",
    "bench-peers": "-m tests.bench --only",
    "bench-instructions": "-m tests.bench.instructions",
    "constraints": "pip freeze",
}
ANY_PORT = "\nserver: {port: 0, admin: {port: 0}}\n"
SHELL = re.compile(r"[|&;$<>`*]")  # what takes a shell to understand
LINE = 1  # how much is buffered: both streams end up in one file, in the order in which lines are written
BROKEN = 70  # an exit code that toolgate itself does not have
USUAL, USUAL_ADMIN = "8080", "9464"


@dataclass
class Terminal:
    """Variables that are exported stay, and so do programs that run on, until the stack unwinds.

    `ports` says on which port each thing really is that a page has at its usual one.
    """

    folder: Path
    env: dict[str, str]
    ports: dict[str, str]
    stack: ExitStack
    background: list[Running] = field(default_factory=list)

    def enter(self, command: Command) -> str:
        """Types one command and looks at what appears; returns it, as far as the command is over then."""
        words = shlex.split(command.line, comments=True)
        if words[0] == "make":
            assert_made(words[1])
        elif words[:2] == ["toolgate", "serve"]:
            self._serve(words)
        elif words[0] == "python" and words[-1] == "&":
            self._tool_server(words)
        elif words[0] == "wait":
            assert self.background.pop().ended() == command.code, command.line
        elif words[0] == "toolgate" and not SHELL.search(command.line):
            arguments = shlex.split(self._real(command.line), comments=True)[1:]
            return self._show(command, *forked(arguments, environment(**self.env), self.folder))
        else:
            return self._show(command, *self._run(command))
        return ""

    def write(self, name: str, text: str) -> None:
        """Saves a file that a page shows; a gateway in it listens wherever there is room."""
        listens = ANY_PORT if name.endswith(".yaml") and not re.search(r"^server:", text, re.MULTILINE) else ""
        (self.folder / name).write_text(self._real(text) + listens)

    def _serve(self, words: list[str]) -> None:
        arguments = [word for word in words[1:] if word != "&"]
        command = self._start([sys.executable, "-W", "error", "-m", "gateway", *arguments])
        line = command.wait_for('"message":"listening"')
        for name, port in (("public", USUAL), ("admin", USUAL_ADMIN)):
            (self.ports[port],) = re.findall(rf'"{name}":"[^"]+:(\d+)"', line)
        eventually(lambda: healthy(f"http://127.0.0.1:{self.ports[USUAL]}"), "the gateway is ready")

    def _tool_server(self, words: list[str]) -> None:
        *arguments, port, _ = words[1:]
        self.ports[port] = self._start([sys.executable, *arguments, "0"]).wait_for("listening on ").rsplit(":")[-1]

    def _start(self, words: list[str]) -> Running:
        command = self.stack.enter_context(running(words, self.env, self.folder))
        self.background.append(command)
        return command

    def _run(self, command: Command) -> tuple[int, str]:
        """Has a shell run it; its exit code and what it prints."""
        line = self._real(command.line)
        if line.startswith("export "):
            names = re.findall(r"(\w+)=", line)
            line += f"; env -0 | grep -z -E '^({'|'.join(names)})='"
        done = subprocess.run(
            ["sh", "-c", PROGRAMS + line],
            env=environment(**self.env),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if line.startswith("export "):
            pairs = (pair.partition("=") for pair in done.stdout.rstrip("\0").split("\0"))
            self.env.update({name: value for name, _, value in pairs})
        return done.returncode, done.stdout

    def _show(self, command: Command, code: int, printed: str) -> str:
        """Compares; three dots in what is shown stand for anything."""
        assert code == command.code, f"$ {command.line}\n{printed}"
        shown = "\n".join(command.shown).rstrip()
        if shown:
            pattern = ".*".join(map(re.escape, shown.split("...")))
            usual = self._usual(printed).rstrip()
            assert re.fullmatch(pattern, usual, re.DOTALL), f"$ {command.line}\nshown:\n{shown}\nprinted:\n{usual}"
        return printed

    def _real(self, text: str) -> str:
        """What a page says, with the ports that things have here."""
        if self.background:
            text = text.replace("$!", str(self.background[-1].process.pid))
        return re.sub(r"\b127\.0\.0\.1:(\d+)", lambda match: f"127.0.0.1:{self.ports.get(match[1], match[1])}", text)

    def _usual(self, text: str) -> str:
        """What appears, with the ports that a page has."""
        usual = {real: port for port, real in self.ports.items()}
        return re.sub(r"\b127\.0\.0\.1:(\d+)", lambda match: f"127.0.0.1:{usual.get(match[1], match[1])}", text)


def forked(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[int, str]:
    """Runs `toolgate` in a process of its own that need not import it again; its exit code and what it prints."""
    with tempfile.TemporaryFile() as printed:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads that a child lacks: those of a worker only talk to who started it.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _become_toolgate(words, env, cwd, printed.fileno())
        ended = (0, 0)

        def is_over() -> bool:
            nonlocal ended
            ended = os.waitpid(child, os.WNOHANG)
            return ended[0] == child

        try:
            eventually(is_over, f"toolgate {' '.join(words)}")
        except AssertionError:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        printed.seek(0)
        return os.waitstatus_to_exitcode(ended[1]), printed.read().decode()


def _become_toolgate(words: Sequence[str], env: Mapping[str, str], cwd: Path, out: int) -> NoReturn:
    code = BROKEN
    try:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        for stream in (1, 2):
            os.dup2(out, stream)
        with (
            own_logging(),
            open(1, "w", LINE, closefd=False) as sys.stdout,
            open(2, "w", LINE, closefd=False) as sys.stderr,
        ):
            code = main(words)
    finally:
        os._exit(code)


def assert_made(target: str) -> None:
    """Whether the Makefile has a target that does what is said of it; it is not run."""
    dry = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert dry.returncode == 0, dry.stderr
    assert MAKE_RUNS[target] in dry.stdout
