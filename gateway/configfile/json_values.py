"""Values that are passed on as JSON: whatever YAML 1.2 and JSON write alike (YAML 1.2, section 10.2)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from gateway.configfile.cursor import Cursor, RefusedValueError
from gateway.configfile.substitution import InvalidValueError, Scalar
from gateway.configfile.values import NOT_TEXT, NUMBER, Schema, Value
from gateway.configfile.yamlnode import MapNode

INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
FRACTION = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
WORDS = {"true": True, "false": False}


class JsonValue(Value):
    """Any JSON. Text is everything that JSON would not read as something else; what is put in by `${...}` is text."""

    title = "JSON"

    def read(self, value: Any) -> Any:
        return self._read(value) if isinstance(value, Cursor) else value

    def _read(self, cursor: Cursor) -> Any:
        if cursor.raw is not None:
            return super().read(cursor)
        if not isinstance(cursor.node.value, MapNode):
            return [self._part(item) for item in cursor.items()]
        entries = cursor.entries()
        if len(entries) < len(cursor.node.value):
            raise RefusedValueError  # for a key, which is recorded
        return {name: self._part(entry) for name, entry in entries.items()}

    def _part(self, cursor: Cursor) -> Any:
        """A value within another, which may also be null."""
        return None if cursor.is_null else self._read(cursor)

    def parse(self, scalar: Scalar) -> Any:
        text = scalar.text
        if not scalar.plain:
            return text
        if text in WORDS:
            return WORDS[text]
        if INTEGER.fullmatch(text):
            return int(text)
        if FRACTION.fullmatch(text) and abs(number := float(text)) != float("inf"):
            return number
        if text in NOT_TEXT or NUMBER.fullmatch(text):
            raise InvalidValueError("is not written as JSON has it; put it in quotes if it is text")
        return text

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean", "array", "object"]}


AnyJson = Annotated[Any, JsonValue()]
