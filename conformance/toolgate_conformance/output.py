"""Output of the command: sentences for people, JSON for programs, exit codes for both."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PROGRAM = "toolgate-conformance"
OK, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class CommandError(Exception):
    """A command that cannot go on: what to say on standard error, and the exit code."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines


def complain(*lines: str) -> None:
    """Writes to standard error. Much of it comes from other machines, so nothing in it may steer the terminal."""
    for line in lines:
        print(printable(line), file=sys.stderr)


def say(*lines: str) -> None:
    """Writes text for people to standard output, as harmless as `complain` makes it."""
    put(*map(printable, lines))


def put(*lines: str) -> None:
    """Writes lines to standard output as they are; and flushes.

    Raises CommandError when they cannot be, as on a full disk, and BrokenPipeError when the reader has gone.
    """
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        discard_output()
        raise CommandError(FAILED, f"Standard output cannot be written: {exc.strerror}.") from exc


def print_json(document: Any) -> None:
    """Writes a document for programs; ASCII, so that it is valid whatever encoding the terminal has."""
    put(json.dumps(document, indent=2))


def discard_output() -> None:
    """Redirects pending output to /dev/null: flushing it at exit would fail again, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, forge a line or fail to be encoded."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
