"""A JSON Schema as a graph: where its subschemas stand, what its references name, which of them run in circles.

Tool servers write these schemas, so nothing here trusts them: whatever would make checking a value slow without
bound, or would need another document, is refused before it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from gateway.core.jsontext import is_deeper_than
from gateway.schemas.references import (
    DEFINITIONS,
    IN_PLACE,
    Pointer,
    Schema,
    SchemaError,
    followed,
    inside,
    is_before_2019,
    local,
    outside,
    pointer_of,
    subschemas,
    text_of,
)

MAX_DEPTH = 150  # of the JSON text; the validator itself gives up at 255
MAX_CHAIN = 150  # schemas one inside, or behind, the other; keeps our own recursion far from Python's limit
MAX_WORK = 20_000  # schemas that may look at one and the same value: about 1 ms; large real unions stay under 1,000

MAX_LOOKS = 200_000  # schemas seen while circles are searched: about 0.2 s; real catalogues need a few thousand

_NAMES = ("dependencies", "dependentRequired", "patternProperties", "properties", "required")
_COMPARED = ("const", "enum", "type", *_NAMES)


class Work(NamedTuple):
    """What may be done for one value."""

    schemas: int  # that may look at it
    looks: int  # keywords, names and alternatives that these compare with it

    def plus(self, other: Work) -> Work:
        """The sum of both."""
        return Work(self.schemas + other.schemas, self.looks + other.looks)


class SchemaDocument:
    """A whole schema with its references resolved; in `root` all of them are pointers.

    Raises: SchemaError for references that lead nowhere or out of the document.
    """

    def __init__(self, root: Schema) -> None:
        if not isinstance(root, dict):
            raise SchemaError("It is not a JSON object.")
        text = text_of(root)
        if (text is None or text.count(b"{") + text.count(b"[") > MAX_DEPTH) and is_deeper_than(root, MAX_DEPTH):
            raise SchemaError(f"It is nested deeper than {MAX_DEPTH} levels.")
        self.root = local(root, text)
        self.ref_alone = is_before_2019(root)
        self.patterns: set[str] = set()  # regular expressions, each once
        self._targets: dict[str, tuple[Pointer, Any]] = {}
        if self.root is not root or text is None or b'"$ref"' in text or b'"pattern' in text:
            self._scan()
        self.circular = self._find_circles() if self._targets else frozenset[Pointer]()
        self._closing = self._find_closing() if self.circular else frozenset[int]()
        # A schema takes a byte of the text at least, and is looked at once.
        is_short = text is not None and len(text) <= MAX_WORK and b'"unevaluated' not in text
        self._may_be_much = bool(self._targets) or not is_short

    @property
    def has_refs(self) -> bool:
        """Whether there is anything to inline."""
        return bool(self._targets)

    def target(self, schema: Schema) -> Any:
        """What the `$ref` of a schema names."""
        return self._targets[schema["$ref"]][1]

    def has_ref(self, schema: Schema) -> bool:
        """Whether a schema is (or has) a reference we resolved."""
        ref = schema.get("$ref")
        return isinstance(ref, str) and ref in self._targets

    def names_circular(self, schema: Schema) -> bool:
        """Whether the `$ref` of a schema names something that leads back to itself."""
        return self._targets[schema["$ref"]][0] in self.circular

    def closes_circle(self, schema: Schema) -> bool:
        """Whether a `$ref` stands inside the circle it refers to; without those, no path through the schema repeats."""
        return id(schema) in self._closing

    def work(self) -> Work:
        """How much may be done for one value. Raises SchemaError where it is very much, as of doubling `allOf`s."""
        return self._work(self.root, 0, {})

    def check_work(self) -> None:
        """Raises SchemaError where `work` does; most schemas are too short for that, which takes no time to see."""
        if self._may_be_much:
            self.work()

    def _scan(self) -> None:
        """Resolves every reference. Targets may lie where no keyword has a schema, so they are looked through too."""
        seen: set[int] = set()
        queue: list[Any] = [self.root]
        while queue:
            schema = queue.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            queue += inside(schema)
            pattern, by_pattern = schema.get("pattern"), schema.get("patternProperties")
            if isinstance(pattern, str):
                self.patterns.add(pattern)
            if isinstance(by_pattern, dict):
                self.patterns.update(by_pattern)
            ref = schema.get("$ref")
            if isinstance(ref, str) and ref not in self._targets:
                queue.append(self._resolve(ref))

    def _resolve(self, ref: str) -> Any:
        if ref != "#" and not ref.startswith("#/"):
            raise outside(ref)
        pointer = pointer_of(ref)
        node = followed(self.root, pointer, ref)[-1]
        self._targets[ref] = pointer, node
        return node

    def _find_circles(self) -> frozenset[Pointer]:
        """The targets that lie on a circle, or between two.

        Peels off targets that lead nowhere and targets that nothing leads to, until only circles are left.
        """
        leads_to = self._leads_to()
        remaining = _peel(leads_to)
        # Which value such a schema allows is undefined (2020-12 core, 9.4.1: MUST NOT).
        if remaining and _peel(self._leads_to(in_place=True)):
            raise SchemaError("It refers to itself without ever looking deeper into the value.")
        led_from: dict[Pointer, set[Pointer]] = {node: set() for node in remaining}
        for node in remaining:
            for target in leads_to[node] & remaining:
                led_from[target].add(node)
        return frozenset(_peel(led_from))

    def _leads_to(self, *, in_place: bool = False) -> dict[Pointer, set[Pointer]]:
        leads_to: dict[Pointer, set[Pointer]] = {}
        looked_at = 0
        for pointer, node in dict(self._targets.values()).items():
            leads_to[pointer] = set()
            for schema in _within(node, in_place=in_place):
                looked_at += 1
                if self.has_ref(schema):
                    leads_to[pointer].add(self._targets[schema["$ref"]][0])
            if looked_at > MAX_LOOKS:
                raise SchemaError("Its references name schemas nested in each other too often.")
        return leads_to

    def _find_closing(self) -> frozenset[int]:
        circular = (node for pointer, node in dict(self._targets.values()).items() if pointer in self.circular)
        inside = (schema for node in circular for schema in _within(node))
        return frozenset(id(schema) for schema in inside if self.has_ref(schema) and self.names_circular(schema))

    def _work(self, schema: Any, depth: int, works: dict[int, Work]) -> Work:
        """In-place keywords add up; of `properties` only one applies to a value.

        A reference that runs in a circle counts once, because the validator remembers those: 60 levels of
        `anyOf: [self, self]` take it 13 microseconds.
        """
        if not isinstance(schema, dict):
            return Work(1, 1)
        if id(schema) in works:
            return works[id(schema)]
        if depth > MAX_CHAIN:
            raise SchemaError(f"Its references lead through more than {MAX_CHAIN} schemas.")
        work, widest = Work(1, _looks(schema)), Work(0, 0)
        for (keyword, *_), inner in subschemas(schema):
            if keyword in DEFINITIONS:
                continue
            cost = self._work(inner, depth + 1, works)
            if keyword == "properties":
                widest = Work(max(widest.schemas, cost.schemas), max(widest.looks, cost.looks))
            else:
                work = work.plus(cost)
        work = work.plus(widest)
        if self.has_ref(schema) and not self.closes_circle(schema):
            work = work.plus(self._work(self.target(schema), depth + 1, works))
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            work = work.plus(work)  # the validator runs the siblings again to learn what they have seen
        if work.schemas > MAX_WORK:
            raise SchemaError(f"It makes more than {MAX_WORK} schemas apply to one value.")
        works[id(schema)] = work
        return work


def _within(node: Any, *, in_place: bool = False) -> Iterator[Schema]:
    """A schema and all schemas inside it, or only those that look at the same value."""
    queue = [node] if isinstance(node, dict) else []
    while queue:
        schema = queue.pop()
        yield schema
        if in_place:
            queue.extend(inner for keys, inner in subschemas(schema) if keys[0] in IN_PLACE)
        else:
            queue += inside(schema)


def _peel(leads_to: dict[Pointer, set[Pointer]]) -> set[Pointer]:
    """What is left of a graph when nodes that lead nowhere are taken away, again and again."""
    sorter = TopologicalSorter(leads_to)
    with suppress(CycleError):  # it sorts what it can
        sorter.prepare()
    remaining = set(leads_to)
    while leaves := sorter.get_ready():
        remaining.difference_update(leaves)
        sorter.done(*leaves)
    return remaining


def _looks(schema: Schema) -> int:
    """How many keywords, names and alternatives a schema itself compares with one value."""
    return len(schema) + sum(_size(schema[keyword]) for keyword in _COMPARED if keyword in schema)


def _size(compared: Any) -> int:
    if isinstance(compared, dict):
        return len(compared)
    if not isinstance(compared, list):
        return 1
    return sum(1 + len(repr(option)) // 8 if isinstance(option, dict | list) else 1 for option in compared)
