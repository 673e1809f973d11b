"""The commands by name, and how one of them is run, whatever becomes of it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence

from gateway import __version__
from gateway.cli.command import PROGRAM, find, overview
from gateway.cli.output import FAILED, INTERRUPTED, OK, USAGE, CommandError, complain, discard_output, put
from gateway.errors import ConfigError

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
    """Runs one command and returns its exit code. `imported` is called when all that it takes is there."""
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
        discard_output()  # whoever read it has enough
        return FAILED


def _run(words: Sequence[str], imported: Callable[[], None]) -> int:
    if not words:
        raise CommandError(USAGE, *overview(COMMANDS).splitlines())
    name, *rest = words
    match name:
        case "-h" | "--help" | "help":
            put(overview(COMMANDS))
        case "--version":
            put(f"{PROGRAM} {__version__}")
        case _:
            command = find(COMMANDS, name)
            imported()
            return command(rest)
    return OK
