"""Runs the command in this process, which spares its imports."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

from toolgate_conformance.__main__ import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def entered(*words: str) -> Done:
    """Runs the command with some words to its end."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(words)
    return Done(code, out.getvalue(), err.getvalue())
