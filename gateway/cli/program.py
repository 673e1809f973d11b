"""The commands by name, and how one of them is run and its errors are reported."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from gateway import __version__
from gateway.cli.command import PROGRAM, Command, sentence
from gateway.cli.output import FAILED, INTERRUPTED, OK, USAGE, CommandError, complain, discard_output, put
from gateway.errors import ConfigError
from gateway.suggestions import suggestion

COMMANDS = {
    "serve": "run the gateway",
    "check": "check a configuration, and with --live what is behind it",
    "tools": "list the tools of a running gateway",
    "call": "call a tool of a running gateway",
    "token": "make a bearer token for development",
    "hash-key": "make the hash of an API key",
    "demo": "run demonstration tool servers behind a gateway, with curl lines to paste",
}


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
            return command(rest)
    return OK


def _find(name: str) -> Command:
    """The command of that name, imported only now: all of them together take a second. Raises CommandError."""
    if name not in COMMANDS:
        what = "option" if name.startswith("-") else "command"
        hint = suggestion(name, COMMANDS) or f"; {PROGRAM} --help lists the commands"
        raise CommandError(USAGE, sentence(f"{PROGRAM}: there is no {what} {name!r}{hint}"))
    gc.disable()  # what is imported stays, and looking through it again and again takes a fifth of the time
    command: Command = import_module(f"gateway.cli.{name.replace('-', '_')}").COMMAND
    gc.freeze()  # nor is it looked through later: until a gateway listens and again as it ends that takes 0.1 s
    gc.enable()
    return command


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
