"""Makes an input for a tool that may run, from its JSON Schema."""

from __future__ import annotations

import math
from typing import Any

from toolgate_conformance.schemas import fits

MAX_DEPTH = 8
MAX_LENGTH = 1000  # characters of a text, items of a list
FORMATS = {  # of texts; validators do not look at them, but tools do
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "kit@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def sample(schema: Any) -> dict[str, Any] | None:
    """An object that fits a schema, with the required members only; None if none is found."""
    made = _value(schema, MAX_DEPTH)
    return made if isinstance(made, dict) and fits(schema, made) else None


def _value(schema: Any, depth: int) -> Any:
    """A simple value, which may not fit."""
    if not isinstance(schema, dict) or depth == 0:
        return "kit"
    if given := _given(schema):
        return given[0]
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    match kinds[0] if isinstance(kinds, list) and kinds else kinds:
        case "object":
            properties, required = schema.get("properties"), schema.get("required")
            known = properties if isinstance(properties, dict) else {}
            names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
            return {name: _value(known.get(name), depth - 1) for name in names}
        case "array":
            return [_value(schema.get("items"), depth - 1)] * _least(schema, "minItems")
        case "number" | "integer":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    return "kit".ljust(_least(schema, "minLength"), "t")[: _least(schema, "maxLength", MAX_LENGTH)]


def _given(schema: dict[str, Any]) -> list[Any]:
    """Values that the schema itself names."""
    one = [schema[name] for name in ("const", "default") if name in schema]
    some = [schema[name] for name in ("enum", "examples") if isinstance(schema.get(name), list)]
    return [*one, *(value for values in some for value in values)]


def _number(schema: dict[str, Any]) -> int:
    """The whole number nearest to 0 within the limits of a schema, if there is one."""
    lowest = [_least(schema, "minimum", -MAX_LENGTH), _least(schema, "exclusiveMinimum", -MAX_LENGTH - 1) + 1]
    highest = -_least({"maximum": -schema["maximum"]}, "maximum") if _is_number(schema.get("maximum")) else MAX_LENGTH
    return min(max(0, *lowest), highest)


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and abs(found) <= MAX_LENGTH


def _least(schema: dict[str, Any], name: str, default: int = 0) -> int:
    """A limit of a schema as a whole number, within what is made here."""
    found: Any = schema.get(name)
    return math.ceil(found) if _is_number(found) else default
