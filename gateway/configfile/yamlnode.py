"""YAML text -> a tree of nodes that know their line and column; what a plain scalar means is for its reader to decide.

YAML 1.1 as PyYAML reads it, less a second document, tags, recursion, and aliases that expand to a large tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

MAX_CHARACTERS = 4 * 1024 * 1024  # some 60,000 routes; PyYAML needs about fifteen seconds for them
MAX_DEPTH = 32  # the settings are at most six deep; deeper means the wrong file, or an attack on the stack
MAX_NODES = 1_000_000  # counted after aliases are expanded, so ten lines of `[*a, *a]` cannot become a billion


class Mark(NamedTuple):
    """A position as editors count it: from 1."""

    line: int
    column: int


class MapNode(tuple[tuple["Node", "Node"], ...]):
    """Keys with values, in the order of the file; a key may occur twice here and may be no scalar."""


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, a list or a mapping."""

    mark: Mark
    value: str | list[Node] | MapNode
    plain: bool = False  # a scalar without quotes, which is neither a literal nor a folded block
    tagged: bool = False  # it has a YAML tag
    size: int = 1  # how many nodes it is with all below it


class YamlError(Exception):
    """Text that is not one YAML document; `message` holds no value of the file."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark
        self.message = message


def parse(text: str) -> Node:
    """Reads the only document in `text`. Raises YamlError."""
    if len(text) > MAX_CHARACTERS:
        raise YamlError(Mark(1, 1), f"is larger than {MAX_CHARACTERS} characters")
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as exc:
        mark = mark_at(text, exc.position)
        raise YamlError(mark, "holds a control character, which YAML does not allow") from exc
    try:
        return _NodeBuilder(loader).document()
    except yaml.MarkedYAMLError as exc:
        raise YamlError(_mark(exc.problem_mark or exc.context_mark), _explain(exc)) from exc
    except (ValueError, OverflowError) as exc:
        # PyYAML lets chr() and int() fail through: "\UFFFFFFFF", or a %YAML version of 5,000 digits.
        raise YamlError(_mark(loader.get_mark()), "is not valid YAML: a number in an escape is too large") from exc
    finally:
        loader.dispose()


def mark_at(text: str, offset: int) -> Mark:
    """Where the character at `offset` stands."""
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def values(node: Node, name: str) -> list[Node]:
    """What stands under a key of a mapping, once for each time it is written."""
    return [value for key, value in node.value if key.value == name] if isinstance(node.value, MapNode) else []


class _NodeBuilder:
    """Builds the tree from PyYAML's events: its own composer recurses without limit and expands aliases unseen."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def document(self) -> Node:
        start = self._next()  # of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            raise YamlError(_mark(start.start_mark), "is empty")
        node = self._node(self._next(), 0)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            raise YamlError(_mark(after.start_mark), "starts a second document; one file is one configuration")
        if node.plain and not node.value:
            raise YamlError(node.mark, "is empty")
        return node

    def _next(self) -> Any:
        return self._loader.get_event()  # type: ignore[no-untyped-call]

    def _node(self, event: Any, depth: int) -> Node:
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, mark)
        if depth > MAX_DEPTH:
            raise YamlError(mark, f"is nested deeper than {MAX_DEPTH} levels")
        self._count(1, mark)
        tagged = event.tag is not None
        if isinstance(event, yaml.ScalarEvent):
            node = Node(mark, event.value, event.style is None, tagged)
        elif isinstance(event, yaml.SequenceStartEvent):
            items = self._children(yaml.SequenceEndEvent, depth + 1)
            node = Node(mark, items, tagged=tagged, size=_size(items))
        else:
            parts = self._children(yaml.MappingEndEvent, depth + 1)
            pairs = MapNode(zip(parts[::2], parts[1::2], strict=True))
            node = Node(mark, pairs, tagged=tagged, size=_size(parts))
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _children(self, end: type[yaml.Event], depth: int) -> list[Node]:
        children = []
        while not isinstance(event := self._next(), end):
            children.append(self._node(event, depth))
        return children

    def _alias(self, anchor: Any, mark: Mark) -> Node:
        # The anchor's name stays out of the message: a password that starts with `*` looks like an alias.
        # A node is known only when it is complete, so nothing can contain itself.
        node = self._anchors.get(anchor)
        if node is None:
            raise YamlError(mark, "is an alias of nothing above it; put text that starts with '*' in quotes")
        self._count(node.size, mark)
        return node

    def _count(self, size: int, mark: Mark) -> None:
        self._nodes += size
        if self._nodes > MAX_NODES:
            raise YamlError(mark, f"makes more than {MAX_NODES} nodes, aliases expanded")


def _size(children: list[Node]) -> int:
    return 1 + sum(child.size for child in children)


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


HINTS = (  # what PyYAML says of common mistakes, and what most likely happened
    ("expected <block end>", "; is this line, or the one above it, indented as its neighbours are?"),
    ("mapping values are not allowed", "; is a space missing after a colon above, or quotes around text with a colon?"),
    ("scanning an alias", "; put text that starts with '*' in quotes"),
    ("but got '{'", "; within braces put ${...} in quotes"),
)


def _explain(exc: yaml.MarkedYAMLError) -> str:
    problem = str(exc.problem)
    if r"'\t'" in problem:
        return "is not valid YAML: a tab cannot indent; use spaces"
    # The only message of PyYAML with more than one character of the file in it; a password may start with `!`.
    problem = re.sub(r"(?s)undefined tag handle .*", "undefined tag handle", problem)
    explained = f"{exc.context}: {problem}" if exc.context else problem
    hint = next((hint for part, hint in HINTS if part in explained), "")
    return f"is not valid YAML: {explained}{hint}"
