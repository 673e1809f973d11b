"""A configuration file -> one frozen `Config`, or every problem in it at once.

`python -m gateway.settings.load` prints the JSON Schema of the file, which editors use and `config/` keeps a copy of;
with `--markdown` the reference for people, of which `docs/` keeps a copy.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gateway.configfile import yamlnode
from gateway.configfile.cursor import ParseContext, TooManyProblemsError
from gateway.configfile.substitution import Substitution
from gateway.configfile.yamlnode import Node
from gateway.core.errors import ConfigError
from gateway.settings import Config, reference

MAX_BYTES = 4 * 1024 * 1024  # as many as the YAML reader takes characters


class Loaded(NamedTuple):
    """A configuration, and what its file should not hold."""

    config: Config
    warnings: Sequence[str]  # a line for each secret in plain text


def load(path: str | Path, *, env: Mapping[str, str] = os.environ, allow_missing_env: bool = False) -> Config:
    """Reads a file; relative paths in it start where it lies. Raises ConfigError."""
    return load_with_warnings(path, env=env, allow_missing_env=allow_missing_env).config


def load_with_warnings(
    path: str | Path, *, env: Mapping[str, str] = os.environ, allow_missing_env: bool = False
) -> Loaded:
    """Reads a file as `load` does."""
    root = parse(read_text(path), str(path))
    return validate(root, str(path), Substitution(env, Path(path).parent, allow_missing_env))


def read(
    text: str,
    *,
    source: str = "<text>",
    base: Path = Path(),
    env: Mapping[str, str] = os.environ,
    allow_missing_env: bool = False,
) -> Config:
    """Reads the text of a file that lies in `base` and is called `source` in problems. Raises ConfigError.

    With `allow_missing_env` something that passes stands in for variables and files that are not there.
    """
    return validate(parse(text, source), source, Substitution(env, base, allow_missing_env)).config


def read_text(path: str | Path) -> str:
    """Reads the text of a file. Raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {exc.strerror}"]) from exc
    if len(data) > MAX_BYTES:
        raise ConfigError([f"{path}:1:1: is larger than {MAX_BYTES} bytes"])
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        before = data[: exc.start].decode()
        mark = yamlnode.mark_at(before, len(before))
        raise ConfigError([f"{path}:{mark.line}:{mark.column}: is not UTF-8 text"]) from None


def parse(text: str, source: str) -> Node:
    """Makes a tree of the text of a file. Raises ConfigError."""
    try:
        return yamlnode.parse(text)
    except yamlnode.YamlError as exc:
        raise ConfigError([f"{source}:{exc.mark.line}:{exc.mark.column}: {exc.message}"]) from None


def validate(root: Node, source: str, substitution: Substitution) -> Loaded:
    """Makes a configuration of the tree of a file. Raises ConfigError."""
    context = ParseContext(root, substitution)
    try:
        config = Config.model_validate(context.cursor())
    except TooManyProblemsError:
        raise ConfigError(context.lines(source), tuple(context.files)) from None
    except ValidationError as exc:
        if not context.problems:
            raise TypeError("a key is annotated with a type that cannot be read from a file") from exc
        raise ConfigError(context.lines(source), tuple(context.files)) from None
    if context.problems:
        raise ConfigError(context.lines(source), tuple(context.files))
    return Loaded(config.with_proxies(), context.warnings(source))


def json_schema() -> dict[str, Any]:
    """Describes the file as JSON Schema (draft 2020-12)."""
    return reference.json_schema(Config)


def schema_text() -> str:
    """The JSON Schema as it lies in `config/`."""
    return json.dumps(json_schema(), indent=2) + "\n"


def reference_text() -> str:
    """The reference of all keys as it lies in `docs/`."""
    return reference.markdown(json_schema())


def main(words: Sequence[str]) -> None:
    """Prints the schema, or with `--markdown` the reference."""
    sys.stdout.write(reference_text() if "--markdown" in words else schema_text())


if __name__ == "__main__":
    main(sys.argv[1:])
