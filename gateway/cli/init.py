"""`toolgate init`: writes a first configuration, for something that is to become tools."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway import config
from gateway.cli import configuration
from gateway.cli.hash_key import hashed
from gateway.cli.output import OK, PROGRAM, USAGE, CommandError, put, say
from gateway.errors import ConfigError
from gateway.settings import Config

DESCRIPTION = "Writes a configuration for an HTTP API, by its OpenAPI document. It asks nothing and overwrites nothing."

DRAFTERS = {"openapi": "gateway.cli.init_openapi"}  # modules by protocol, each with a function `draft`
KEY_BYTES = 32


class Draft(NamedTuple):
    """A backend for a configuration: its YAML, indented as below `backends`, and what to say about it.

    `variables` are environment variables that it names, each with what belongs there.
    """

    name: str
    yaml: str
    said: tuple[str, ...]
    variables: Mapping[str, str]


class Drafter(Protocol):
    """A module that drafts backends of one protocol."""

    def draft(self, arguments: argparse.Namespace) -> Draft:
        """Looks at what is to become tools. Raises CommandError."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="URL", help="where the document is: a URL, or a file")
    default = configuration.DEFAULT
    parser.add_argument("-o", "--output", type=Path, default=default, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--protocol", choices=sorted(DRAFTERS), default="openapi", help="default: %(default)s")
    parser.add_argument("--name", metavar="NAME", help="of the backend, and so of its tools; default: from the title")
    parser.add_argument("--url", metavar="URL", help="where calls go; default: the document's first server")
    methods = "operations that may become tools; may be repeated; all: every one (default: what only reads)"
    parser.add_argument("--method", action="append", default=[], metavar="METHOD", help=methods)
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="only these; may be repeated")
    parser.add_argument("--operation", action="append", default=[], metavar="GLOB", help="only these; may be repeated")
    parser.add_argument("--max", type=int, metavar="N", help="how many tools there may be (default: 200)")
    parser.add_argument(
        "--allow-http", action="store_true", help="let the document be fetched over http from elsewhere"
    )


def run(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output
    if output.exists():  # before anything is fetched
        raise _exists(output)
    drafter: Drafter = import_module(DRAFTERS[arguments.protocol])
    draft = drafter.draft(arguments)
    key = secrets.token_hex(KEY_BYTES)
    text = _text(draft, hashed(key), arguments.document)
    checked(text, output.parent)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(output) from None
    except OSError as exc:
        raise CommandError(USAGE, f"{output} cannot be written: {exc.strerror}.") from exc
    say(f"{output} is written.", *draft.said, "", "Next:")
    put(*_next_steps(draft, key, output))
    return OK


def checked(text: str, folder: Path) -> Config:
    """Reads what is to be written to a folder. Raises CommandError."""
    try:
        return config.read(text, source="the configuration", base=folder, allow_missing_env=True)
    except ConfigError as exc:
        raise CommandError(USAGE, "This does not make a configuration:", *exc.problems) from exc


def _exists(output: Path) -> CommandError:
    return CommandError(USAGE, f"{output} is there already and stays as it is; name another with --output.")


def _text(draft: Draft, key_hash: str, document: str) -> str:
    made = "".join(char if char.isprintable() else "?" for char in document)
    return f"""\
# Made by `{PROGRAM} init` of {made}
auth:
  api_keys: # who may call; `{PROGRAM} hash-key` makes more of them
    - id: me
      hash: {key_hash}
backends:
{draft.yaml}routes: # which tools are published, and to whom
  - tools: "*"
    backend: {draft.name}
"""


def _next_steps(draft: Draft, key: str, output: Path) -> Iterator[str]:
    """The commands to go on with, each with what it is for."""
    named = output != configuration.DEFAULT
    steps = [(f"export {name}=...", what) for name, what in draft.variables.items()]
    steps += [
        (f"{PROGRAM} check --live" + (f" {output}" if named else ""), "what became of each operation"),
        (f"{PROGRAM} serve" + (f" -c {output}" if named else ""), "the gateway; then, in another terminal:"),
        (f"export TOOLGATE_TOKEN={key}", "the key of callers, shown only now"),
        (f"{PROGRAM} tools", "what they may call"),
    ]
    width = max(len(command) for command, _ in steps if len(command) < len(key))
    yield from (f"  {command.ljust(width)}  # {what}" for command, what in steps)
