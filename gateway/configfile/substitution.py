"""`${env:NAME}` and `${file:path}` in the values of a file; `$$` is a dollar sign, any other `$` stands for itself.

What is put in is text and is not looked at again: a variable that holds `${...}` is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 64 * 1024  # a key, a token or a chain of certificates; not data
MAX_TEXT = 1024 * 1024  # of one value; a value may name the same file many times

EXPRESSION = re.compile(r"\$\$|\$\{(?:(?P<source>env|file):(?P<name>[^}]{1,1024})\})?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class InvalidValueError(ValueError):
    """A value that is not what its key expects; the message continues the key's path and holds no value."""


class MissingError(InvalidValueError):
    """A variable or file that is not there; may be overlooked where secrets are absent on purpose."""


def refers(text: str) -> bool:
    """Whether a value of a file has a variable or a file put in."""
    return any(match["source"] for match in EXPRESSION.finditer(text))


def files_in(text: str) -> Iterator[str]:
    """The files that a text has put in, as it names them, whether or not the rest of it is of any use."""
    return (match["name"] for match in EXPRESSION.finditer(text) if match["source"] == "file")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar after substitution. One that is neither `plain` nor `quoted` had something put in."""

    text: str
    plain: bool = False  # without quotes
    quoted: bool = False
    missing: bool = False  # what should have been put in was not there


@dataclass(slots=True)
class Substitution:
    """Where values come from: the environment, and files."""

    env: Mapping[str, str]
    base: Path  # where relative paths start
    allow_missing: bool = False  # an absent variable or file is noted instead of refused

    def expand(self, text: str, *, plain: bool) -> Scalar:
        """Puts variables and files into a scalar. Raises InvalidValueError."""
        parts: list[str] = []
        end = length = 0
        replaced = missing = False
        for match in EXPRESSION.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            if match[0] == "$$":
                parts.append("$")
                continue
            replaced = True
            try:
                parts.append(self._value(match))
            except MissingError:
                if not self.allow_missing:
                    raise
                missing = True
            length += len(parts[-1])
            if length > MAX_TEXT:
                raise InvalidValueError(f"is longer than {MAX_TEXT} characters after substitution")
        expanded = "".join(parts) + text[end:]
        return Scalar(expanded, plain and not replaced, not (plain or replaced), missing)

    def _value(self, match: re.Match[str]) -> str:
        name = match["name"]
        if match["source"] == "file":
            return self._read(name)
        if match["source"] is None:
            raise InvalidValueError(
                "has a '${' that begins neither ${env:NAME} nor ${file:path}; write $${ for the two characters"
            )
        if VARIABLE.fullmatch(name) is None:
            raise InvalidValueError(
                "names an environment variable that cannot exist; names have letters, digits and _ only"
            )
        value = self.env.get(name)
        if value is None:
            raise MissingError(f"environment variable {name} is not set")
        return value

    def _read(self, name: str) -> str:
        try:
            path = self.base / name
            if not path.is_file():  # a FIFO would block, a device would not end
                raise MissingError(f"file {name!r} does not exist or is no regular file")
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as exc:
            raise MissingError(f"file {name!r} cannot be read: {exc.strerror}") from exc
        if len(data) > MAX_FILE_BYTES:
            raise InvalidValueError(f"file {name!r} is larger than {MAX_FILE_BYTES} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise InvalidValueError(f"file {name!r} is not UTF-8 text") from None  # the cause would hold the bytes
        return text.removesuffix("\n").removesuffix("\r")
