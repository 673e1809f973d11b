"""The questions of `toolgate init` on a terminal: each has an answer to begin with, and a bad one is asked again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import TypeVar

from gateway.cli.drafting.callers import AUDIENCE, Callers, Trusted
from gateway.cli.drafting.draft import CredentialWantedError, Draft, ForeignServerError, Wanted
from gateway.cli.output import CommandError, complain, say
from gateway.logs.output import printable

INTRODUCTION = (
    "This writes a configuration. Enter takes the answer in brackets; Ctrl-C ends it, and nothing is written."
)
PLACE = "URL of a tool server, or of an OpenAPI document (also a file)"
WHO = (
    "Who may call?",
    "  1  whoever has an API key, which is made now",
    "  2  whoever has a token of an OpenID Connect issuer",
    "  3  whoever has a token signed with a secret that the gateway knows (JWT, HS256)",
)
SECRET = "TOOLGATE_JWT_SECRET"  # noqa: S105 - the name of a variable

T = TypeVar("T")
Ask = Callable[[Wanted], Draft]  # raises CommandError
Look = Callable[[Trusted], Callers]  # the same


def on_terminal() -> bool:
    """Whether somebody can answer."""
    return bool(sys.stdin and sys.stdout and sys.stdin.isatty() and sys.stdout.isatty())


def server(wanted: Wanted, ask: Ask) -> Draft:
    """Asks for a server until one can be used, then for its name."""
    say(INTRODUCTION, "")
    draft = None
    while draft is None:
        draft = _tried(lambda: _asked(replace(wanted, place=_place()), ask))
    return draft


def _place() -> str:
    """A file by its whole path: where the configuration will lie is not known yet."""
    place = _answer(PLACE)
    return os.path.abspath(place) if os.path.isfile(place) else place


def _asked(wanted: Wanted, ask: Ask) -> Draft:
    """Raises CommandError."""
    draft = None
    while draft is None:
        try:
            draft = ask(wanted)
        except CredentialWantedError as exc:
            if wanted.token_env is not None:
                raise
            complain(exc.lines[0])
            wanted = replace(wanted, token_env=_token())
        except ForeignServerError as exc:
            complain(exc.lines[0])
            wanted = replace(wanted, calls_url=_answer("URL for calls", exc.url))
    say(*draft.said)
    while wanted.name is None and (name := _answer("Name of the backend", draft.name)) != draft.name:
        renamed = _tried(partial(ask, replace(wanted, name=name)))
        if renamed is not None:
            return renamed
    return draft


def _token() -> str:
    """The name of a variable that holds a token from now on, here at least."""
    variable = _answer("Variable that will hold its token", "TOOL_TOKEN")
    if not os.environ.get(variable):
        os.environ[variable] = getpass("The token, which is neither shown nor written: ").strip()
    return variable


def callers(look: Look) -> Callers:
    """Asks who may call, until that can be."""
    say("", *WHO)
    found = None
    while found is None:
        match _answer("Choice", "1"):
            case "1":
                trusted = Trusted()
            case "2":
                issuer = _answer("URL of the issuer")
                trusted = Trusted(issuer=issuer, audience=(_answer("Audience of its tokens", AUDIENCE),))
            case "3":
                trusted = Trusted(secret_env=_answer("Variable that will hold the secret", SECRET))
            case _:
                complain("Answer 1, 2 or 3.")
                continue
        found = _tried(partial(look, trusted))
    say(*found.said)
    return found


def output(*usual: Path) -> Path:
    """Asks for a file that is not there yet, such as the first of these."""
    absent = next((str(path) for path in usual if not os.path.lexists(path)), "")
    while True:
        path = Path(_answer("File to write", absent))
        if not os.path.lexists(path):
            return path
        complain(f"{path} is there already and stays as it is.")


def _tried(try_: Callable[[], T]) -> T | None:
    """What is tried; None after an error, which is told."""
    try:
        return try_()
    except CommandError as exc:
        complain(*exc.lines, "")
        return None


def _answer(question: str, usual: str = "") -> str:
    """What is typed, or else the usual answer; without one the question is asked again."""
    while True:
        # Not as the prompt of `input`, which may go to standard error.
        print(printable(f"{question} [{usual}]: " if usual else f"{question}: "), end="", flush=True)
        typed = input().strip()
        if typed or usual:
            return typed or usual
