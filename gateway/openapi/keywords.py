"""The keywords of schemas in OpenAPI documents, and which of their values JSON Schema 2020-12 takes.

Documents break the meta-schema in many places, and a schema with one bad keyword could not be used at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gateway.model import Json, JsonObject
from gateway.openapi.errors import OperationError

ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "examples"})
TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
NULL: JsonObject = {"type": "null"}

# Of a schema in which one of these stands, `type` does not decide alone whether it takes null.
_DECIDING = ("$ref", "allOf", "anyOf", "const", "else", "if", "not", "oneOf", "then")
_IN_SLASHES = re.compile(r"/(\^.*\$)/([a-z]*)", re.DOTALL)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def is_number(value: Json) -> bool:
    """Whether a value is a number, which a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_reference(named: Json) -> bool:
    """Whether an object in which each member has a name of the document's is a reference instead."""
    return isinstance(named, dict) and isinstance(named.get("$ref"), str)


def _is_positive(value: Json) -> bool:
    return is_number(value) and value > 0


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_true(value: Json) -> bool:
    return value is True


def _is_anything(_: Json) -> bool:
    return True


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


# 2020-12, its form for OpenAPI, and older drafts, which are understood as far as they say the same in another way.
_DIALECTS = re.compile(
    r"https?://(spec\.openapis\.org/oas/3\.[0-9]+/.+|json-schema\.org/draft(-0[467]|/2019-09|/2020-12)/schema)#?"
)

# Keywords that are taken as they are if their value is one that they may have; other keywords are left out.
PLAIN: dict[str, Callable[[Json], bool]] = {
    "format": _is_text,
    "contentEncoding": _is_text,
    "contentMediaType": _is_text,
    "default": _is_anything,
    "const": _is_anything,
    "examples": _is_list,
    "deprecated": _is_true,
    "uniqueItems": _is_true,
    "multipleOf": _is_positive,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "minContains": _is_count,
    "maxContains": _is_count,
    "minProperties": _is_count,
    "maxProperties": _is_count,
}


def check_dialect(named: Json) -> None:
    """Raises OperationError for schemas in a dialect that is not known."""
    if not isinstance(named, str) or not _DIALECTS.fullmatch(named):
        raise OperationError(f"Its schemas are in the dialect {str(named)[:100]!r}, which is not supported.")


def texts_of(value: Json) -> list[str]:
    """The texts in a list, each once; nothing of what is no list."""
    return list(dict.fromkeys(text for text in value if isinstance(text, str))) if isinstance(value, list) else []


def types_of(value: Json) -> str | list[str] | None:
    """The `type` of a schema; None: it says nothing. Raises ValueError for one that there is not."""
    if type(value) is str and value in TYPES:
        return value
    if value is None or value == "any":
        return None
    names = ["null" if name is None else name for name in value] if isinstance(value, list) else [value]
    names = list(dict.fromkeys("string" if name == "file" else name for name in names if isinstance(name, str)))
    if not TYPES.issuperset(names):
        raise ValueError
    return names if len(names) > 1 else names[0] if names else None


def options_of(value: list[Json], types: Json) -> list[Json]:
    """The values of an `enum`, each once; numbers among texts are texts that YAML has taken for numbers."""
    if all(type(option) is str for option in value):
        return list(dict.fromkeys(value))
    if types == "string":
        value = [_as_text(option) if isinstance(option, int | float) else option for option in value]
    return list({msgspec.json.encode(option): option for option in value}.values())


def _as_text(value: float) -> str:
    return msgspec.json.encode(value).decode()


def bare_pattern(pattern: str) -> str | None:
    """A regular expression without the slashes that some documents write around it; None: with flags, it is unusable.

    With them it would match no text at all.
    """
    found = _IN_SLASHES.fullmatch(pattern)
    if found is None:
        return pattern
    return None if found[2] else found[1]


def or_null(schema: Json) -> Json:
    """A schema of JSON Schema 2020-12 that takes null too."""
    if not isinstance(schema, dict):
        return schema if schema is True else NULL
    if schema.keys().isdisjoint(_DECIDING):
        result = dict(schema)
        if "type" in schema:
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            result["type"] = types if "null" in types else [*types, "null"]
        if "enum" in schema and None not in schema["enum"]:
            result["enum"] = [*schema["enum"], None]
        return result
    told = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    branches = rest["anyOf"] if rest.keys() == {"anyOf"} else [rest]
    return {**told, "anyOf": branches if NULL in branches else [*branches, NULL]}
