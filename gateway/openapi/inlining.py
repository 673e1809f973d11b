"""Replaces references to definitions by what they name, for callers that cannot follow `$ref`: once for all tools.

As `gateway.schemas.inline`, for the schemas of one document, whose definitions mean the same in all of them. What many
schemas have is one object, so that a thousand tools cost little more than their document.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.jsontext import encode
from gateway.model import JsonObject
from gateway.schemas.inline import ANNOTATIONS, MAX_DEPTH, MAX_SCHEMAS, with_subschemas

POINTER = "#/$defs/"  # begins all references


class _RefersError(Exception):
    """A schema that keeps references: it is recursive, in another dialect, or would grow out of proportion."""


class _Measure:
    """How many schemas one has, how many bytes as text, at most, and how deep they stand in each other."""

    __slots__ = ("depth", "schemas", "size")

    def __init__(self, size: int) -> None:
        self.schemas = self.depth = 0
        self.size = size


class _Definition(NamedTuple):
    source: Any  # as long as it lives, no other object has its id
    schema: Any = None
    measure: _Measure | None = None  # None: it keeps references


class Inliner:
    """Inlines the schemas of one document. `max_bytes` bounds what each may grow to, as text."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known: dict[int, _Definition] = {}
        self._open: set[int] = set()  # definitions that are being inlined: met again, they are recursive

    def inlined(self, schema: JsonObject) -> JsonObject | None:
        """The schema without references; None if it has to keep them."""
        definitions = schema.get("$defs")
        if not isinstance(definitions, dict):
            return None if "$schema" in schema or "$ref" in schema else schema
        body = {key: value for key, value in schema.items() if key != "$defs"}
        if "$schema" in body:
            return None
        try:
            inlined = self._copy(body, definitions, 0, _Measure(len(encode(body))))
        except (_RefersError, RecursionError):
            return None
        return inlined if isinstance(inlined, dict) else None

    def _copy(self, schema: Any, definitions: JsonObject, depth: int, measure: _Measure) -> Any:
        """A copy without references; adds to its measure. Raises _RefersError."""
        if not isinstance(schema, dict):
            return schema
        self._add(measure, 1, 0, depth)
        if not isinstance(reference := schema.get("$ref"), str):
            return with_subschemas(schema, lambda inner: self._copy(inner, definitions, depth + 1, measure))
        found = self._definition(definitions.get(reference.removeprefix(POINTER)), definitions)
        assert found.measure is not None
        self._add(measure, found.measure.schemas, found.measure.size, depth + found.measure.depth)
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        if isinstance(found.schema, dict) and siblings.keys() <= ANNOTATIONS:
            return {**found.schema, **siblings} if siblings else found.schema
        siblings = with_subschemas(siblings, lambda inner: self._copy(inner, definitions, depth + 1, measure))
        return {**siblings, "allOf": [*siblings.get("allOf", ()), found.schema]}

    def _definition(self, source: Any, definitions: JsonObject) -> _Definition:
        """A definition without references. Raises _RefersError."""
        known = self._known.get(id(source))
        if known is None:
            if source is None or id(source) in self._open:
                raise _RefersError
            self._open.add(id(source))
            measure = _Measure(len(encode(source)))
            try:
                known = _Definition(source, self._copy(source, definitions, 1, measure), measure)
            except _RefersError:
                known = _Definition(source)
            finally:
                self._open.discard(id(source))
            self._known[id(source)] = known
        if known.measure is None:
            raise _RefersError
        return known

    def _add(self, measure: _Measure, schemas: int, size: int, depth: int) -> None:
        measure.schemas += schemas
        measure.size += size
        measure.depth = max(measure.depth, depth)
        if measure.schemas > MAX_SCHEMAS or measure.size > self._max_bytes or measure.depth > MAX_DEPTH:
            raise _RefersError
