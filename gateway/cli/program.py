"""The commands by name: how their words are read, how one of them is run, and how its errors are reported.

The module of a command has a `DESCRIPTION`, `add_arguments(parser)`, and `run(arguments)` that returns the exit code;
with `RUNS_ANOTHER`, the words after `--` are `arguments.command`.
"""

from __future__ import annotations

import argparse
import gc
import io
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from gateway import __version__
from gateway.cli.output import FAILED, INTERRUPTED, OK, PROGRAM, USAGE, CommandError, complain, discard_output, put
from gateway.core.did_you_mean import suggestion
from gateway.core.errors import ConfigError

COMMANDS = {
    "init": "ask a tool server what it speaks, and write a configuration for it",
    "serve": "run the gateway",
    "check": "check a configuration, and with --live everything it connects to",
    "tools": "list the tools of a running gateway",
    "call": "call a tool of a running gateway",
    "usage": "print how often each key or issuer has used each tool",
    "token": "make a bearer token for development",
    "hash-key": "make the hash of an API key",
    "bridge": "serve an MCP server that uses standard input and output, over HTTP",
    "demo": "run demonstration tool servers behind a gateway, with curl lines to paste",
}
MOVED = {  # what was a command, and where it is now
    "conformance": "The conformance kit is a program of its own: toolgate-conformance, of the package of that name.",
}

OPTION = re.compile(r"(?<!\S)--[a-z-]+")  # as it stands in a usage or help text


class Parser(argparse.ArgumentParser):
    """Reads the words of one command; what is wrong becomes a CommandError."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(USAGE, _sentence(f"{self.prog}: {message}"), f"See {self.prog} --help.")


def run(words: Sequence[str], *, imported: Callable[[], None]) -> int:
    """Runs one command and returns its exit code. `imported` is called once the command is imported."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a value may hold what the terminal's encoding does not
    try:
        return _run(words, imported)
    except CommandError as exc:
        complain(*exc.lines)
        return exc.code
    except ConfigError as exc:
        complain(*exc.problems)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()  # the reader has gone
        return FAILED


def _run(words: Sequence[str], imported: Callable[[], None]) -> int:
    if not words:
        raise CommandError(USAGE, *_overview().splitlines())
    name, *rest = words
    match name:
        case "-h" | "--help" | "help":
            put(_overview())
        case "--version":
            put(f"{PROGRAM} {__version__}")
        case _:
            command = _find(name)
            imported()
            code: int = command.run(_read(name, command, rest))
            return code
    return OK


def _find(name: str) -> ModuleType:
    """The module of a command, imported only now: all of them together take a second. Raises CommandError."""
    if name in MOVED:
        raise CommandError(USAGE, MOVED[name])
    if name not in COMMANDS:
        what = "option" if name.startswith("-") else "command"
        hint = suggestion(name, COMMANDS) or f"; {PROGRAM} --help lists the commands"
        raise CommandError(USAGE, _sentence(f"{PROGRAM}: there is no {what} {name!r}{hint}"))
    gc.disable()  # what is imported stays, and looking through it again and again takes a fifth of the time
    command = import_module(f"gateway.cli.{name.replace('-', '_')}")
    gc.freeze()  # nor is it looked through later: until a gateway listens and again as it ends that takes 0.1 s
    gc.enable()
    return command


def _read(name: str, command: ModuleType, words: Sequence[str]) -> argparse.Namespace:
    """Reads the words after the command's name. Raises CommandError."""
    parser = Parser(prog=f"{PROGRAM} {name}", description=command.DESCRIPTION, allow_abbrev=False)
    command.add_arguments(parser)
    if getattr(command, "RUNS_ANOTHER", False):
        at = words.index("--") if "--" in words else len(words)
        parser.set_defaults(command=words[at + 1 :])
        words = words[:at]
    # Intermixed, because people put options between a tool and its arguments.
    arguments, unknown = parser.parse_known_intermixed_args(words)
    if unknown and not unknown[0].startswith("-"):
        parser.error("there is a word too many")  # it may be a secret, and is not repeated
    if unknown:
        option = unknown[0].partition("=")[0]
        parser.error(f"there is no option {option}{suggestion(option, OPTION.findall(parser.format_help()))}")
    return arguments


def _sentence(text: str) -> str:
    """The text with a full stop, unless it ends as a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _overview() -> str:
    """The help of the program as a whole."""
    widest = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(widest)}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND ...",
            "",
            "A multi-protocol gateway for AI tools.",
            "",
            *lines,
            "",
            f"{PROGRAM} COMMAND --help says more; {PROGRAM} --version says which one this is.",
            "Exit codes: 0 done, 1 failed, 2 refused or used wrongly, 3 the gateway is out of reach.",
        ]
    )
