"""`toolgate hash-key`: what goes into a configuration instead of an API key."""

from __future__ import annotations

import argparse
import getpass
import hashlib
import re
import sys
from typing import TextIO

from gateway.cli.output import OK, USAGE, CommandError, put

DESCRIPTION = (
    "Reads an API key from standard input and prints its hash for auth.api_keys. `openssl rand -hex 32` makes a key."
)

# A digest without salt and stretching protects only what cannot be guessed.
SHORTEST = 20
LONGEST = 4096  # characters; a header with more is refused by most servers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="*", help=argparse.SUPPRESS)  # taken to be refused with the reason


def run(arguments: argparse.Namespace) -> int:
    if arguments.key:
        hint = "Run toolgate hash-key alone, and type the key or pipe it in."
        raise CommandError(USAGE, "Other users of a machine can read what stands on a command line.", hint)
    put(hashed(read_key(sys.stdin)))
    return OK


def hashed(key: str) -> str:
    """The hash as `auth.api_keys` has it. Raises CommandError for what is not fit to be a key, without showing it."""
    if re.fullmatch(r"[!-~]*", key) is None:
        raise CommandError(USAGE, "A key must be visible ASCII without spaces, since it is sent in a header.")
    if not SHORTEST <= len(key) <= LONGEST:
        raise CommandError(USAGE, f"A key must have {SHORTEST} to {LONGEST} characters; try: openssl rand -hex 32")
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def read_key(stdin: TextIO) -> str:
    """One line; a typed one is not shown."""
    if stdin.isatty():
        try:
            return getpass.getpass("API key: ")
        except EOFError:
            return ""
    data = stdin.buffer.read(LONGEST + 3)  # with the end of its line, and enough to tell that it is too long
    return data.decode("latin-1").removesuffix("\n").removesuffix("\r")
