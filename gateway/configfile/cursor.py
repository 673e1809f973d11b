"""A place in a configuration file that is being read, and the problems found in the file so far."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeVar

from gateway.configfile import yamlnode
from gateway.configfile.substitution import InvalidValueError, Scalar, Substitution
from gateway.configfile.yamlnode import MapNode, Mark, Node

T = TypeVar("T", str, list[Node], MapNode)

MAX_PROBLEMS = 100  # a screenful or two; a file with more is probably the wrong file
SHOWN_KEY = 64  # characters; keys of ours are shorter
HARMLESS_KEY = re.compile(rf"[A-Za-z0-9_@*?<-]{{1,{SHOWN_KEY}}}", re.ASCII)
IN_PLAIN_TEXT = "holds a secret in plain text; write ${env:NAME} or ${file:/path} in its place"
NULLS = frozenset({"null", "Null", "NULL", "~"})  # YAML 1.2 core schema, section 10.3.2


class RefusedValueError(ValueError):
    """A value that cannot be used. The problem is recorded already; pydantic goes on with the next key."""


class TooManyProblemsError(Exception):
    """The file has so many problems that more of them would not help."""


class ParseContext:
    """Collects the problems of one file while cursors move over its nodes."""

    def __init__(self, root: Node, substitution: Substitution) -> None:
        self.root = root
        self.substitution = substitution
        self.stand_ins: set[str] = set()  # paths of values, and of lists with items, whose variable is missing
        self.problems: dict[tuple[Mark, str, str], None] = {}  # a problem found twice counts once
        self.files: dict[str, None] = {}  # the paths of files that are named by path, whether or not they are there
        self.plain_secrets: dict[str, Mark] = {}  # by their paths: values of the file that hold a secret themselves
        self._names: dict[str, dict[str, None]] = {}

    def cursor(self) -> Cursor:
        """The whole file."""
        return Cursor(self, self.root, "", Mark(1, 1))

    def record(self, mark: Mark, path: str, message: str) -> None:
        """Notes a problem; the path is empty for the file as a whole. Raises TooManyProblemsError."""
        self.problems[mark, path, message] = None
        if len(self.problems) >= MAX_PROBLEMS:
            raise TooManyProblemsError

    def names(self, section: str) -> dict[str, None]:
        """The keys of a mapping at the top of the file, whatever is wrong with their values."""
        if section not in self._names:
            sections = [node.value for node in yamlnode.values(self.root, section)[:1]]
            keys = [key.value for entries in sections if isinstance(entries, MapNode) for key, _ in entries]
            self._names[section] = dict.fromkeys(key for key in keys if isinstance(key, str))
        return self._names[section]

    def lines(self, source: str) -> list[str]:
        """All problems in the order of the file, each as a compiler prints it, so that editors can jump there."""
        problems = sorted(self.problems, key=lambda problem: problem[0])
        lines = [_line(source, *problem) for problem in problems]
        if len(problems) >= MAX_PROBLEMS:
            lines.append(f"{source}: stopped after {MAX_PROBLEMS} problems")
        return lines

    def warnings(self, source: str) -> list[str]:
        """The secrets that stand in the file in plain text, in the same order and form."""
        places = sorted((mark, path) for path, mark in self.plain_secrets.items())
        return [_line(source, mark, path, IN_PLAIN_TEXT) for mark, path in places]


@dataclass(frozen=True, slots=True, repr=False)
class Cursor:
    """A value, the path of keys that leads to it, and where its key stands."""

    context: ParseContext
    node: Node
    path: str
    key_mark: Mark

    @property
    def raw(self) -> str | None:
        """The text of a scalar before substitution."""
        return self.node.value if isinstance(self.node.value, str) else None

    @property
    def is_null(self) -> bool:
        """Whether the value is written as `null`."""
        return self.node.plain and self.node.value in NULLS

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands behind the key."""
        return self.node.plain and not self.node.value

    @property
    def is_stand_in(self) -> bool:
        """Whether the value, or an item of the list that it is, stands in for a missing variable."""
        return self.path in self.context.stand_ins

    def refuse(self, message: str) -> RefusedValueError:
        """Records what is wrong with the value; the caller raises what it gets, or goes on."""
        self.context.record(self.node.mark, self.path, message)
        return RefusedValueError()

    def refuse_key(self, message: str) -> RefusedValueError:
        """Records what is wrong with the key."""
        self.context.record(self.key_mark, self.path, message)
        return RefusedValueError()

    def refuse_missing(self, name: str, advice: str = "") -> RefusedValueError:
        """Records a required key that is not there."""
        self.context.record(self.key_mark, self._join(name), f"is missing; {advice}" if advice else "is missing")
        return RefusedValueError()

    def scalar(self) -> Scalar:
        """The value with variables and files put in. Raises RefusedValueError."""
        text = self._value(str, "must be a single value")
        try:
            scalar = self.context.substitution.expand(text, plain=self.node.plain)
        except InvalidValueError as exc:
            raise self.refuse(str(exc)) from None
        if not _is_unicode(scalar.text):
            raise self.refuse("is not valid Unicode text")
        return scalar

    def items(self) -> list[Cursor]:
        """One cursor for each item of a list. Raises RefusedValueError."""
        items = enumerate(self._value(list, "must be a list"))
        return [Cursor(self.context, node, f"{self.path}[{index}]", node.mark) for index, node in items]

    def entries(self) -> dict[str, Cursor]:
        """One cursor for each key of a mapping; invalid keys are recorded and left out. Raises RefusedValueError."""
        cursors: dict[str, Cursor] = {}
        for key, value in self._value(MapNode, "must be a mapping of keys to values"):
            name = key.value
            if not isinstance(name, str) or key.tagged or not _is_unicode(name):
                self.context.record(key.mark, self.path, "has a key that is not plain text")
            elif key.plain and name == "<<":
                self.context.record(key.mark, self.path, "has a merge key '<<'; use an alias for a whole value instead")
            elif (first := cursors.get(name)) is not None:
                message = f"is written twice; the first is on line {first.key_mark.line}"
                self.context.record(key.mark, first.path, message)
            else:
                cursors[name] = Cursor(self.context, value, self._join(name), key.mark)
        return cursors

    def _value(self, kind: type[T], message: str) -> T:
        if self.node.tagged:
            raise self.refuse("has a YAML tag; put text that starts with '!' in quotes")
        if self.is_empty:
            raise self.refuse("is empty; write a value or leave the key out")
        if self.is_null:
            raise self.refuse("is null; write a value or leave the key out")
        value = self.node.value
        if not isinstance(value, kind):
            raise self.refuse(message)
        return value

    def _join(self, name: str) -> str:
        step = name if HARMLESS_KEY.fullmatch(name) else json.dumps(name[:SHOWN_KEY])
        return f"{self.path}.{step}" if self.path else step


def _line(source: str, mark: Mark, path: str, message: str) -> str:
    return f"{source}:{mark.line}:{mark.column}: {path and f'{path}: '}{message}"


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate, as from `"\\ud800"` in the file or from bytes in the environment."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
