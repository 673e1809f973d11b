"""Replaces local references by what they name, for callers that cannot follow `$ref` (many model APIs).

A value is valid against the result if and only if it is valid against the original.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import msgspec

from gateway.core.model import JsonObject
from gateway.schemas.document import SchemaDocument
from gateway.schemas.references import DEFINITIONS, LIST, MAP, ONE, Schema, SchemaError, missing

MAX_SCHEMAS = 10_000  # in the result: twenty references to one another can spell a million
MAX_ADDED_BYTES = 1024 * 1024  # by what is repeated: 1,000 references to one long enum make 100 MB of 200 KB
MAX_DEPTH = 60  # schemas one inside the other in the result; a value is at most 64 deep

# Keywords that only describe: beside a `$ref` they replace those of its target (2020-12 core, 7.7.1.1).
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)
_ABOUT_THE_DOCUMENT = ("$schema", "$id", *DEFINITIONS)
_TOO_LARGE = "With its references replaced it would be too large."
_KEPT = object()  # stands for the target of what has no reference, or keeps it
_POINTER = "#/$defs/"


def inline_refs(schema: JsonObject) -> JsonObject:
    """Replaces every local `$ref` that is not recursive; recursive ones keep their definitions.

    Returns the schema unchanged where that cannot be done: when it would grow out of proportion, and when `inlined`
    refuses it.
    """
    try:
        return inlined(schema)
    except SchemaError:
        return schema


def inlined(schema: JsonObject) -> JsonObject:
    """As `inline_refs`. Raises: SchemaError, as for a reference that leads nowhere or out of the document."""
    document = SchemaDocument(schema)
    if not document.has_refs:
        return schema
    try:
        result = _without_refs(document)
        SchemaDocument(result)  # what is still referred to must still be there
    except SchemaError:
        return schema
    return result


def with_subschemas(schema: Schema, change: Callable[[Schema], Any], leave: Container[str] = ()) -> Schema:
    """A copy of a schema in which each schema directly inside it is changed; those under the keywords `leave` stay."""
    result = dict(schema)
    for keyword, value in schema.items():
        if keyword in leave:
            continue
        if isinstance(value, dict):
            if keyword in ONE:
                result[keyword] = change(value)
            elif keyword in MAP:
                result[keyword] = {key: change(s) if isinstance(s, dict) else s for key, s in value.items()}
        elif isinstance(value, list) and keyword in LIST:
            result[keyword] = [change(s) if isinstance(s, dict) else s for s in value]
    return result


def _without_refs(document: SchemaDocument) -> Schema:
    """The whole, with only those definitions that recursive references still need."""

    def target(schema: Schema) -> Any:
        is_kept = not document.has_ref(schema) or document.names_circular(schema)
        return _KEPT if is_kept else document.target(schema)

    copier, measure, source = _Copier(target, MAX_ADDED_BYTES, ref_alone=document.ref_alone), _Measure(), document.root
    needed = {pointer[:2] for pointer in document.circular}
    body = copier.copy({key: value for key, value in source.items() if key not in _ABOUT_THE_DOCUMENT}, measure)
    about: Schema = {key: source[key] for key in ("$schema", "$id") if key in source}
    definitions = {
        key: {name: copier.copy(inner, measure, 1) for name, inner in source[key].items() if (key, name) in needed}
        for key in DEFINITIONS
        if isinstance(source.get(key), dict)
    }
    return {**about, **body, **{key: named for key, named in definitions.items() if named}}


class SharedInliner:
    """Inlines schemas that have the same definitions under `$defs`, each of which is copied once for all.

    What many schemas have is one object then, so that a thousand tools cost little more than their document.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds what each schema may grow to, as text."""
        self._definitions: JsonObject = {}
        self._copier = _Copier(self._target, max_bytes)

    def inlined(self, schema: JsonObject) -> JsonObject | None:
        """The schema without references. None if it keeps some: it is recursive, in another dialect, or too large."""
        definitions = schema.get("$defs")
        if "$schema" in schema or (not isinstance(definitions, dict) and "$ref" in schema):
            return None
        if not isinstance(definitions, dict):
            return schema
        self._definitions = definitions
        body = {key: value for key, value in schema.items() if key != "$defs"}
        try:
            result = self._copier.copy(body, _Measure(len(msgspec.json.encode(body))))
        except (SchemaError, RecursionError):
            return None
        return result if isinstance(result, dict) else None

    def _target(self, schema: Schema) -> Any:
        if not isinstance(reference := schema.get("$ref"), str):
            return _KEPT
        if (target := self._definitions.get(reference.removeprefix(_POINTER))) is None:
            raise missing(reference)
        return target


class _Measure:
    """The size of a schema with all that its references repeat."""

    __slots__ = ("depth", "schemas", "size")

    def __init__(self, size: int = 0) -> None:
        self.schemas = 0
        self.depth = 0  # schemas one inside the other
        self.size = size  # bytes as text, at most


class _ReferenceTarget(NamedTuple):
    """What a reference names, and its copy."""

    source: Any  # as long as it lives, no other object has its id
    copy: Any = None
    measure: _Measure | None = None  # None: it cannot be copied


class _Copier:
    """Copies schemas with the targets of references in their place. A target is copied once, and shared."""

    def __init__(self, target: Callable[[Schema], Any], max_bytes: int, *, ref_alone: bool = False) -> None:
        """`target` finds what the reference of a schema names, or `_KEPT`. It raises SchemaError."""
        self._find = target
        self._max_bytes = max_bytes
        self._ref_alone = ref_alone  # whether keywords beside a reference count for nothing
        self._targets: dict[int, _ReferenceTarget] = {}
        self._open: set[int] = set()  # targets that are being copied: met again, they are recursive

    def copy(self, schema: Any, measure: _Measure, depth: int = 0) -> Any:
        """A copy of a schema, added to its measure. Raises SchemaError."""
        if not isinstance(schema, dict):
            return schema
        self._add(measure, 1, 0, depth)
        if (source := self._find(schema)) is _KEPT:
            return self._with_parts(schema, measure, depth)
        target = self._copied(source)
        assert target.measure is not None
        self._add(measure, target.measure.schemas, target.measure.size, depth + target.measure.depth)
        siblings = {} if self._ref_alone else {key: value for key, value in schema.items() if key != "$ref"}
        if isinstance(target.copy, dict) and siblings.keys() <= ANNOTATIONS:
            return {**target.copy, **siblings} if siblings else target.copy
        siblings = self._with_parts(siblings, measure, depth)
        return {**siblings, "allOf": [*siblings.get("allOf", ()), target.copy]}

    def _with_parts(self, schema: Schema, measure: _Measure, depth: int) -> Schema:
        # Definitions below the root stay as they are: a kept pointer may lead into them.
        return with_subschemas(schema, lambda inner: self.copy(inner, measure, depth + 1), leave=DEFINITIONS)

    def _copied(self, source: Any) -> _ReferenceTarget:
        target = self._targets.get(id(source))
        if target is None:
            if id(source) in self._open:
                raise SchemaError("It is recursive.")
            self._open.add(id(source))
            measure = _Measure(len(msgspec.json.encode(source)))
            try:
                target = _ReferenceTarget(source, self.copy(source, measure, 1), measure)
            except SchemaError:
                target = _ReferenceTarget(source)
            finally:
                self._open.discard(id(source))
            self._targets[id(source)] = target
        if target.measure is None:
            raise SchemaError(_TOO_LARGE)
        return target

    def _add(self, measure: _Measure, schemas: int, size: int, depth: int) -> None:
        measure.schemas += schemas
        measure.size += size
        measure.depth = max(measure.depth, depth)
        if measure.schemas > MAX_SCHEMAS or measure.size > self._max_bytes or measure.depth > MAX_DEPTH:
            raise SchemaError(_TOO_LARGE)
