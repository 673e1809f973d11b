"""The command `toolgate`, from its start to where the rest of it takes over."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command, without words what this process was started for; returns its exit code."""
    if words is None:
        words = sys.argv[1:]
        _fill_standard_places()
        _while_imported(words)
    from gateway.cli import program

    return program.run(words, imported=_interruptible)


def _fill_standard_places() -> None:
    """Opens what is closed of standard input, output and error.

    Another file would get its number, and libuv dies of closing one of these.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def _while_imported(words: Sequence[str]) -> None:
    """Says what signals do while everything is imported, for half a second at the most.

    Ctrl-C ends the process without a word. SIGHUP does nothing: there is no configuration yet to read
    again.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else our parent process wants it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if words[:1] == ["serve"] and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _interruptible() -> None:
    """From here on Ctrl-C is an exception, after which the command can say what became of it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
