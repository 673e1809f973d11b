"""What a command is, and how its words are read: a wrong one gets a sentence that says what to do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from gateway.cli.output import USAGE, CommandError
from gateway.suggestions import suggestion

PROGRAM = "toolgate"
OPTION = re.compile(r"(?<!\S)--[a-z-]+")  # as it stands in a usage or help text


class Parser(argparse.ArgumentParser):
    """Reads the words of one command; what is wrong becomes a CommandError."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(USAGE, sentence(f"{self.prog}: {message}"), f"See {self.prog} --help.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: what it does, its arguments, and what runs it and returns the exit code."""

    name: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]

    def __call__(self, words: Sequence[str]) -> int:
        """Reads the words after the command's name and runs it. Raises CommandError."""
        parser = Parser(prog=f"{PROGRAM} {self.name}", description=self.description, allow_abbrev=False)
        self.add_arguments(parser)
        # Intermixed, because people put options between a tool and its arguments.
        arguments, unknown = parser.parse_known_intermixed_args(words)
        if unknown:
            parser.error(_unknown(unknown[0], OPTION.findall(parser.format_help())))
        return self.run(arguments)


def seconds(text: str) -> int:
    """Reads an option that is a length of time."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError("must be a number of seconds, such as 3600")
    return int(text)


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends as a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _unknown(word: str, options: Sequence[str]) -> str:
    """Says what is wrong with a word; of what may be a value, a secret perhaps, nothing is repeated."""
    if not word.startswith("-"):
        return "there is a word too many"
    name = word.partition("=")[0]
    return f"there is no option {name}{suggestion(name, options)}"
