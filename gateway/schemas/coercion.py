"""Turns arguments into the form that their schema allows, where a caller's client has written them in another one.

Clients send arrays, objects, numbers and booleans as strings that hold their JSON, and null for what is left out. A
string becomes the value it holds only where the schema does not allow the string and does allow the value. A null goes
only if its member is a property that the schema does not require, and that may not be null. Nothing else changes, and
whatever is wrong then remains wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.schemas.references import Schema, SchemaError, followed, is_before_2019, pointer_of

MAX_NESTED = 100  # schemas and values one inside the other; a value is at most 64 deep
ASK_BYTES = 16  # what a question costs beside the length of its value

IsValid = Callable[[Json], bool]


class ExhaustedError(Exception):
    """Coercing a value would take longer than it may."""


class Coercion:
    """Coerces one value. Raises ExhaustedError beyond the bytes that may be compiled and checked."""

    def __init__(
        self,
        root: Schema,
        is_valid: IsValid,  # of the root
        part: Callable[[bytes], IsValid],  # compiles the text of any schema in it, whose references are pointers
        *,
        compiled: int,  # bytes of schemas
        checked: int,  # bytes of values
    ) -> None:
        self._root = root
        self._part = part
        self._compiled_left = compiled
        self._checked_left = checked
        self._parts: dict[int, tuple[Schema, IsValid]] = {id(root): (root, is_valid)}  # by the identity of the schema
        self._is_ref_alone = is_before_2019(root)

    def fit(self, schema: Json, value: Json, nested: int = 0) -> Json:
        """The value, or one like it that fits a schema better. Values are never changed, but copied."""
        if not isinstance(schema, dict) or nested > MAX_NESTED or self._allows(schema, value):
            return value
        if isinstance(value, str):
            return self._read(schema, value, nested)
        if not isinstance(value, dict | list):
            return value
        if isinstance(ref := schema.get("$ref"), str):
            value = self.fit(self._target(ref), value, nested + 1)
            if self._is_ref_alone:
                return value
        inside = self._with_members if isinstance(value, dict) else self._with_items
        value = inside(schema, value, nested)
        for part in self._further(schema, value):
            value = self.fit(part, value, nested + 1)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list):
                value = self._as_one_of(schema, branches, value, nested)
        return value

    def _read(self, schema: Schema, text: str, nested: int) -> Json:
        """What a string holds that is not allowed itself, if that is."""
        try:
            value = jsontext.decode(text.encode(), jsontext.MAX_DEPTH)
        except (jsontext.JsonError, UnicodeEncodeError):
            return text
        if value is None or isinstance(value, str):
            return text
        value = self.fit(schema, value, nested + 1)
        return value if self._allows(schema, value) else text

    def _with_members(self, schema: Schema, value: JsonObject, nested: int) -> JsonObject:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, dict) else {}
        required = required if isinstance(required, list) else ()
        fitting: JsonObject = {}
        for name, member in value.items():
            parts = list(self._parts_of(schema, properties, name))
            if member is None and name in properties and name not in required:
                if all(self._allows(part, None) for part in parts):
                    fitting[name] = None
                continue
            for part in parts:
                member = self.fit(part, member, nested + 1)
            fitting[name] = member
        return fitting

    def _parts_of(self, schema: Schema, properties: JsonObject, name: str) -> Iterator[Json]:
        """The schemas that a member of that name has to fit."""
        is_named = name in properties
        if is_named:
            yield properties[name]
        patterns = schema.get("patternProperties")
        for pattern, part in patterns.items() if isinstance(patterns, dict) else ():
            if self._allows({"pattern": pattern}, name):
                is_named = True
                yield part
        if not is_named:
            yield schema.get("additionalProperties", schema.get("unevaluatedProperties", True))

    def _with_items(self, schema: Schema, value: list[Json], nested: int) -> list[Json]:
        first, rest = schema.get("prefixItems", ()), schema.get("items", schema.get("unevaluatedItems", True))
        if isinstance(rest, list):  # before 2020-12
            first, rest = rest, schema.get("additionalItems", True)
        first = first if isinstance(first, list) else ()
        parts = (first[index] if index < len(first) else rest for index in range(len(value)))
        return [self.fit(part, item, nested + 1) for part, item in zip(parts, value, strict=True)]

    def _further(self, schema: Schema, value: Json) -> Iterator[Json]:
        """The schemas that the value has to fit as a whole, beside `$ref`, `anyOf` and `oneOf`."""
        parts = schema.get("allOf")
        yield from parts if isinstance(parts, list) else ()
        if "if" in schema:
            yield schema.get("then" if self._allows(schema["if"], value) else "else", True)
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, dict) and isinstance(value, dict):
            yield from (part for name, part in dependent.items() if name in value)

    def _as_one_of(self, schema: Schema, branches: list[Json], value: Json, nested: int) -> Json:
        """The value as the first branch has it that makes all of the schema fit; else as the first that fits itself."""
        best: list[Json] = []
        for branch in branches:
            fitting = self.fit(branch, value, nested + 1)
            if self._allows(branch, fitting):
                if self._allows(schema, fitting):
                    return fitting
                best.append(fitting)
        return best[0] if best else value

    def _target(self, ref: str) -> Any:
        try:
            return followed(self._root, pointer_of(ref), ref)[-1]
        except SchemaError:
            return True

    def _allows(self, schema: Json, value: Json) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        self._checked_left -= ASK_BYTES + len(value if isinstance(value, str) else jsontext.encode(value))
        if self._checked_left < 0:
            raise ExhaustedError
        entry = self._parts.get(id(schema))
        if entry is None:
            text = msgspec.json.encode(schema)
            self._compiled_left -= len(text)
            if self._compiled_left < 0:
                raise ExhaustedError
            entry = self._parts[id(schema)] = schema, self._part(text)
        return entry[1](value)
