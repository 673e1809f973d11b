"""Where a JSON Schema has other schemas: what is known of its keywords, in all drafts together."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.model import JsonObject

Schema = JsonObject
Pointer = tuple[str, ...]

# Where draft 4 to 2020-12 have a place for schemas; before 2020-12 `items` may be a list.
_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_LIST = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP = ("dependentSchemas", "dependencies")
IN_PLACE = {*_IN_PLACE_ONE, *_IN_PLACE_LIST, *_IN_PLACE_MAP}  # these look at the same value
_CHILD_ONE = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
DEFINITIONS = ("$defs", "definitions")
_ONE = {*_IN_PLACE_ONE, *_CHILD_ONE}
_LIST = {*_IN_PLACE_LIST, "prefixItems", "items"}
_MAP = {*_IN_PLACE_MAP, "properties", "patternProperties", *DEFINITIONS}

_BEFORE_2019 = ("draft-04", "draft-06", "draft-07")


class SchemaError(ValueError):
    """A schema that cannot be used; `reason` is a sentence for the operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def subschemas(schema: Schema) -> Iterator[tuple[Pointer, Schema]]:
    """The schemas (no bare booleans) directly inside one, as they are written, and the keys that lead to each."""
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in _ONE:
                yield (keyword,), value
            elif keyword in _MAP:
                yield from (((keyword, name), s) for name, s in value.items() if isinstance(s, dict))
        elif isinstance(value, list) and keyword in _LIST:
            yield from (((keyword, str(i)), s) for i, s in enumerate(value) if isinstance(s, dict))


def names_draft(schema: Schema, *drafts: str) -> bool:
    """Whether the `$schema` of a document names one of these drafts, such as `2020-12`."""
    named = schema.get("$schema")
    return isinstance(named, str) and any(draft in named for draft in drafts)


def is_before_2019(schema: Schema) -> bool:
    """Whether a document is of draft 4, 6 or 7: keywords beside a `$ref` are ignored, and `format` is checked."""
    return names_draft(schema, *_BEFORE_2019)
