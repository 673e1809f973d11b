"""Values that keep to a JSON Schema, as far as the schemas of tools go; what is made is checked, and made again."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import jsonschema_rs

TRIES = 20
DEEP = 5  # from here on, only what must be there
FORMATS = {
    "date-time": "2026-11-22T10:00:00Z",
    "date": "2026-11-22",
    "time": "10:00:00Z",
    "uri": "https://example.com/a",
    "url": "https://example.com/a",
    "uuid": "5c0b2ee1-6a8e-4f0c-9d8c-0a3f2b1c4d5e",
    "email": "a@example.com",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}
# What patterns in the documents ask for; the first that fits is taken.
GUESSES = (
    *("abc", "ABC", "7", "2026-11-22", "#a0b1c2", "https://example.com/", "a/b", "1:2", "v1"),
    *("0123456789abcdef" * 4, "sha256:" + "0123456789abcdef" * 4, "ssh-rsa AAAA"),
)
TEXTS = ("plain", "with space", "é", "a,b", "100%", "x=1")
PLAIN = ("plain", "other")  # go into any place


class Maker:
    """Makes arguments of tools by chance: the same ones for the same seed. `share` is that of optional members."""

    def __init__(self, seed: int, texts: Sequence[str] = TEXTS, share: float = 0.5) -> None:
        self._random = Random(seed)
        self._texts = texts
        self._share = share
        self._root: Mapping[str, Any] = {}

    def arguments(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Arguments that keep to the input schema of a tool; None if none were found."""
        self._root = schema
        validator = jsonschema_rs.validator_for(schema, validate_formats=True)
        for _ in range(TRIES):
            made = self._value(schema, 0)
            if isinstance(made, dict) and validator.is_valid(made):
                return made
        return None

    def _value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return "any"
        schema = self._chosen(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice([value for value in schema["enum"] if value is not None] or [None])
        return self._typed(schema, depth)

    def _chosen(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A schema without references and alternatives: one of each is chosen."""
        schema = self._resolved(schema)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                branches = [branch for branch in schema[word] if branch != {"type": "null"}] or schema[word]
                rest = {key: value for key, value in schema.items() if key != word}
                return self._chosen(_merged(rest, self._resolved(self._random.choice(branches))))
        return schema

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        types = schema.get("type", "object" if "properties" in schema else "string")
        kinds = [kind for kind in types if kind != "null"] if isinstance(types, list) else [types]
        match kinds[0] if kinds else "null":
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return self._random.random() < 0.5
            case "null":
                return None
        return self._text(schema)

    def _resolved(self, schema: Any) -> Any:
        """A schema with its references followed and what it is made of put together."""
        while isinstance(schema, Mapping) and ("$ref" in schema or "allOf" in schema):
            if "$ref" in schema:
                found: Any = self._root
                for token in schema["$ref"].removeprefix("#").split("/")[1:]:
                    found = found[token.replace("~1", "/").replace("~0", "~")]
                schema = _merged({key: value for key, value in schema.items() if key != "$ref"}, found)
            else:
                whole = {key: value for key, value in schema.items() if key != "allOf"}
                for part in schema["allOf"]:
                    whole = _merged(whole, self._resolved(part))
                schema = whole
        return schema

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        made = {
            name: self._value(inner, depth + 1)
            for name, inner in properties.items()
            if name in required or (depth < DEEP and self._random.random() < self._share)
        }
        if not made and properties:
            name = self._random.choice(sorted(properties))
            made[name] = self._value(properties[name], depth + 1)
        made |= dict.fromkeys(required - properties.keys(), "any")
        further = schema.get("additionalProperties", True)
        while len(made) < schema.get("minProperties", 0) and further is not False:
            made[f"further{len(made)}"] = self._value(further, depth + 1)
        return made

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        count = max(least, self._random.randint(1, 2) if depth < DEEP else 0)
        made = [
            self._value(schema.get("items", True), depth + 1) for _ in range(min(count, schema.get("maxItems", count)))
        ]
        if schema.get("uniqueItems"):
            made = [value for place, value in enumerate(made) if value not in made[:place]]
        return made

    def _number(self, schema: Mapping[str, Any]) -> float:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        most = schema.get("maximum", least + 50)
        chosen = self._random.randint(int(least), max(int(most), int(least)))
        return chosen - chosen % schema["multipleOf"] if "multipleOf" in schema else chosen

    def _text(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            fitting = jsonschema_rs.validator_for({"pattern": schema["pattern"]})
            return next(filter(fitting.is_valid, GUESSES), "")
        if schema.get("contentEncoding") == "base64":
            return base64.b64encode(b"some bytes").decode()
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        text = self._random.choice(self._texts)
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 100)]


def _merged(one: Mapping[str, Any], other: Any) -> dict[str, Any]:
    """Both schemas at once, near enough."""
    if not isinstance(other, Mapping):
        return dict(one)
    both = {**one, **other}
    for word in ("properties", "$defs"):
        if word in one and word in other:
            both[word] = {**one[word], **other[word]}
    if "required" in one and "required" in other:
        both["required"] = [*one["required"], *other["required"]]
    return both
