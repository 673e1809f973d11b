"""The command `toolgate-conformance`: reads its words, runs it, and reports its errors."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import NoReturn

from toolgate_conformance import __version__, command
from toolgate_conformance.output import FAILED, INTERRUPTED, PROGRAM, USAGE, CommandError, complain, discard_output


class Parser(argparse.ArgumentParser):
    """Reads the words of the command; what is wrong becomes a CommandError."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(USAGE, f"{self.prog}: {message}.", f"See {self.prog} --help.")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command, without words what this process was started for; returns its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a message may hold what the terminal's encoding does not
    try:
        return command.run(read(sys.argv[1:] if words is None else words))
    except CommandError as exc:
        complain(*exc.lines)
        return exc.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()  # the reader has gone
        return FAILED


def read(words: Sequence[str]) -> argparse.Namespace:
    """Reads the words; what stands after `--` is the command of a client. Raises CommandError."""
    parser = Parser(prog=PROGRAM, description=command.DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    command.add_arguments(parser)
    at = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_intermixed_args(words[:at])
    arguments.command = words[at + 1 :]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
