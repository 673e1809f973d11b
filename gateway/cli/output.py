"""Output of the commands: sentences and tables for people, JSON for programs, exit codes for both."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence

import msgspec

from gateway.core.model import Json
from gateway.logs.output import printable

PROGRAM = "toolgate"
OK, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3  # exit codes of every command
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
GAP = "  "  # between two columns
NARROWEST = 20  # characters the last column gets at least, however little the terminal leaves it
NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")
WIDEST_CUT_TO = 10  # characters that are left of the widest other column, if that has to make room


class CommandError(Exception):
    """A command that cannot go on: what to say on standard error, and the exit code."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines


def seconds(text: str) -> int:
    """Reads an option that is a length of time."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError("must be a number of seconds, such as 3600")
    return int(text)


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
        if not sys.stdout:  # closed by the parent process
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        if sys.stdout:
            discard_output()
        raise CommandError(FAILED, f"Standard output cannot be written: {exc.strerror}.") from exc


def discard_output() -> None:
    """Redirects pending output to /dev/null: flushing it at exit would fail again, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: Json) -> None:
    """Writes a document for programs; ASCII, so that it is valid whatever encoding the terminal has."""
    put(json.dumps(document, indent=2))


def print_answer(body: bytes) -> None:
    """Writes JSON that was received, indented, with every number as it was sent.

    Characters that could steer a terminal, or hide what is written, are escaped as in JSON: the values are the same.
    """
    put(NOT_ASCII.sub(_escaped, msgspec.json.format(body, indent=2).decode()))


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.isprintable() else json.dumps(text)[1:-1]


def print_value(value: Json) -> None:
    """Writes a tool's value: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if sys.stdout and sys.stdout.isatty():
        say(*text.splitlines())
    else:
        put(text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Lines of columns as wide as their widest cell; to fit `width`, if given, the last and the widest are cut."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    if width is None:
        return [_line(line, [*widths, None]) for line in lines]
    room = width - sum(widths) - len(GAP) * len(widths)
    if room < NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] = min(widths[widest], max(widths[widest] + room - NARROWEST, WIDEST_CUT_TO))
    return [_line(line, [*widths, max(room, NARROWEST)]) for line in lines]


def terminal_width() -> int | None:
    """How many characters fit a line; None when standard output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def first_line(text: str) -> str:
    """The first line of a description, without the space around it."""
    return text.strip().partition("\n")[0].rstrip()


def count(number: int, what: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _line(cells: Sequence[str], rooms: Sequence[int | None]) -> str:
    cut = (_cut(cell, room).ljust(room or 0) for cell, room in zip(cells, rooms, strict=True))
    return GAP.join(cut).rstrip()


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else text[: room - 3] + "..."
