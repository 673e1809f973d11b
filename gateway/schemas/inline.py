"""Replaces local references by what they name, for callers that cannot follow `$ref` (many model APIs).

A value is valid against the result if and only if it is valid against the original.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import msgspec

from gateway.model import JsonObject
from gateway.schemas.document import SchemaDocument
from gateway.schemas.references import DEFINITIONS, LIST, MAP, ONE, Schema, SchemaError

MAX_SCHEMAS = 10_000  # in the result: twenty references to one another can spell a million
MAX_ADDED_BYTES = 1024 * 1024  # by what is repeated: 1,000 references to one long enum make 100 MB of 200 KB
MAX_DEPTH = 60  # schemas one inside the other in the result; a value is at most 64 deep

# Keywords that only describe: beside a `$ref` they replace those of its target (2020-12 core, 7.7.1.1).
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)
_ABOUT_THE_DOCUMENT = ("$schema", "$id", *DEFINITIONS)
_TOO_LARGE = "With its references replaced it would be too large."


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
        result = _Inliner(document).root()
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


class _Inliner:
    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._made = 0
        self._added_bytes = 0
        self._sizes: dict[str, int] = {}  # of what a `$ref` names, as text

    def root(self) -> Schema:
        """The whole, with only those definitions that recursive references still need."""
        source = self._document.root
        needed = {pointer[:2] for pointer in self._document.circular}
        body = self._copy({key: value for key, value in source.items() if key not in _ABOUT_THE_DOCUMENT}, 0)
        about: Schema = {key: source[key] for key in ("$schema", "$id") if key in source}
        definitions = {
            key: {name: self._copy(inner, 1) for name, inner in source[key].items() if (key, name) in needed}
            for key in DEFINITIONS
            if isinstance(source.get(key), dict)
        }
        return {**about, **body, **{key: named for key, named in definitions.items() if named}}

    def _copy(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._made += 1
        if self._made > MAX_SCHEMAS or depth > MAX_DEPTH:
            raise SchemaError(_TOO_LARGE)
        if not self._document.has_ref(schema) or self._document.names_circular(schema):
            return self._with_inlined_parts(schema, depth)
        target = self._document.target(schema)
        if isinstance(target, dict):
            self._count(schema["$ref"], target)
        target = self._copy(target, depth + 1)
        siblings = {} if self._document.ref_alone else {key: schema[key] for key in schema if key != "$ref"}
        if isinstance(target, dict) and siblings.keys() <= ANNOTATIONS:
            return {**target, **siblings}
        siblings = self._with_inlined_parts(siblings, depth)
        return {**siblings, "allOf": [*siblings.get("allOf", ()), target]}

    def _count(self, ref: str, target: Schema) -> None:
        """Notes one more copy of a target; what that refers to in turn is counted by itself."""
        if ref not in self._sizes:
            self._sizes[ref] = len(msgspec.json.encode(target))
        self._added_bytes += self._sizes[ref]
        if self._added_bytes > MAX_ADDED_BYTES:
            raise SchemaError(_TOO_LARGE)

    def _with_inlined_parts(self, schema: Schema, depth: int) -> Schema:
        # Definitions below the root stay as they are: a kept pointer may lead into them.
        return with_subschemas(schema, lambda inner: self._copy(inner, depth + 1), leave=DEFINITIONS)
