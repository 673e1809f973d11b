"""A reader's terminal: the commands of a page are typed, and their output is compared with what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from gateway.__main__ import main
from tests.support.markdown import Command
from tests.support.terminal import DEADLINE_S, ROOT, Running, environment, eventually, healthy, own_logging, running

PYTHON = shlex.quote(sys.executable)
PROGRAMS = f'toolgate() {{ {PYTHON} -W error -m gateway "$@"; }}; python() {{ {PYTHON} "$@"; }}; '
KIT = f'toolgate_conformance() {{ PYTHONPATH={ROOT}/conformance {PYTHON} -W error -m toolgate_conformance "$@"; }}; '
MAKE_RUNS = {
    "demo": "toolgate demo",
    "test": "-m pytest",
    "test-conformance": "pytest conformance/tests",
    "test-console": "tests/console",
    "test-deploy": "tests/deploy",
    "test-lowest": "-m pytest",
    "test-pythons": ".ci/on-debian",
    "test-interop": "tests/interop/mcp",
    "test-soak": "soak",
    "docs": "-m tests.site",
    "release": "-m release",
    "check": "mypy",
    "bench": "-m tests.bench",
    "bench-quick": "-m tests.bench --quick",
    "bench-peers": "-m tests.bench --only",
    "bench-instructions": "-m tests.bench.instructions",
    "constraints": "pip freeze",
    "help": "make demo",
}
ANY_PORT = "\nserver: {port: 0, admin: {port: 0}}\n"
SHELL = re.compile(r"[|&;$<>`*]")  # what takes a shell to understand
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
        elif words[:2] == ["toolgate", "bridge"]:
            self._bridge(words)
        elif words[0] == "wait":
            assert self.background.pop().ended() == command.code, command.line
        elif words[0] == "toolgate" and not SHELL.search(command.line):
            arguments = shlex.split(self._real(command.line), comments=True)[1:]
            return self._show(command, *self._toolgate(arguments))
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

    def _bridge(self, words: list[str]) -> None:
        options, command = words[2 : words.index("--")], words[words.index("--") + 1 : -1]
        assert command[0] == "python"
        port = options.pop()
        bridge = self._start(
            [sys.executable, "-m", "gateway", "bridge", *options, "0", "--", sys.executable, *command[1:]]
        )
        (self.ports[port],) = re.findall(r":(\d+)/mcp", bridge.wait_for("Serving "))

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
            ["sh", "-c", PROGRAMS + KIT + line.replace("toolgate-conformance ", "toolgate_conformance ")],
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

    def _toolgate(self, words: list[str]) -> tuple[int, str]:
        """Runs the command in this process, which spares half a second of imports; its exit code and what it prints."""
        variables, printed = dict(os.environ), StringIO()
        wanted = environment(**self.env)
        os.environ.clear()
        os.environ.update(wanted)
        try:
            with own_logging(), chdir(self.folder), redirect_stdout(printed), redirect_stderr(printed):
                return main(words), printed.getvalue()
        except SystemExit as end:  # --help
            return int(end.code or 0), printed.getvalue()
        finally:
            os.environ.clear()
            os.environ.update(variables)

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


def assert_made(target: str) -> None:
    """Whether the Makefile has a target that does what is said of it; it is not run."""
    dry = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert dry.returncode == 0, dry.stderr
    assert MAKE_RUNS[target] in dry.stdout
