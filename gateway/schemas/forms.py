"""Which form of a value a schema allows, as a phrase: `an array of strings`, `an object with kind "circle", radius`.

It names what distinguishes forms, not every condition. The words come from the schema only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from gateway.schemas.references import Schema, SchemaError, followed, pointer_of

MAX_NESTED = 4  # schemas one inside, or behind, the other that a phrase speaks of
MAX_NAMED = 8  # forms, members or alternatives in one phrase
MAX_QUOTED_LENGTH = 200  # of what is quoted from the schema: an enum may list every country

FORMATS = {
    "date": "YYYY-MM-DD",
    "date-time": "YYYY-MM-DDThh:mm:ssZ",
    "time": "hh:mm:ssZ",
    "duration": "P1DT2H30M",
    "email": "name@example.com",
    "hostname": "www.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-pointer": "/member/0",
    "uri": "https://example.com/path",
    "uri-reference": "../path or https://example.com/path",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

_ARTICLES = {"array": "an array", "integer": "an integer", "object": "an object", "null": "null"}
_OF_TYPE = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems")),
    ("string", ("pattern", "minLength", "maxLength", "format")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_BOUNDS = (
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("exclusiveMinimum", "more than"),
    ("exclusiveMaximum", "less than"),
)


def shortened(text: str, limit: int = MAX_QUOTED_LENGTH) -> str:
    """Cuts a text that is too long, visibly."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def quoted(value: Any) -> str:
    """A value of the schema as JSON."""
    return shortened(msgspec.json.encode(value).decode())


def any_type(types: Iterable[str]) -> str:
    """Names of types as a phrase, null last."""
    null_last = sorted(types, key=lambda name: name == "null")
    return " or ".join(dict.fromkeys(_ARTICLES.get(name, f"a {name}") for name in null_last))


def in_format(name: str) -> str:
    """What a value of a format is: `a date of the form YYYY-MM-DD`."""
    example = FORMATS.get(name)
    return f"a valid {shortened(name)}" + (f" such as {example}" if example else "")


def fits_none(schemas: Sequence[Any], root: Schema) -> str | None:
    """What a value is not that fits none of these; None where no phrase is found. `root` is what they stand in."""
    phrases = _forms(schemas, root)
    if len(phrases) > 2:
        return f"is none of these: {', or '.join(phrases)}"
    if len(phrases) == 2:
        return f"is neither {phrases[0]} nor {phrases[1]}"
    return f"is not {phrases[0]}" if phrases else None


def fitting(schemas: Sequence[Any], root: Schema) -> str | None:
    """What values are that fit these; None where no phrase is found."""
    return ", or ".join(_forms(schemas, root)) or None


def _forms(schemas: Sequence[Any], root: Schema) -> list[str]:
    forms = [form_of(schema, root) for schema in islice(schemas, MAX_NAMED)]
    phrases = list(dict.fromkeys(form for form in forms if form is not None))
    if phrases and (None in forms or len(schemas) > MAX_NAMED):
        phrases.append("of another allowed form")
    return phrases


def form_of(schema: Any, root: Schema, nested: int = 0) -> str | None:
    """What a value is that fits a schema; None where no phrase is found."""
    if not isinstance(schema, dict) or nested > MAX_NESTED:
        return None
    if isinstance(schema.get("$ref"), str):
        try:
            target = followed(root, pointer_of(schema["$ref"]), schema["$ref"])[-1]
        except SchemaError:
            return None
        return form_of(target, root, nested + 1)
    if "const" in schema:
        return quoted(schema["const"])
    if isinstance(options := schema.get("enum"), list) and options:
        return options_of(options)
    if schema.get("else") is False and "if" in schema:  # how the explaining asks whether a value fits
        return form_of(schema["if"], root, nested + 1)
    types = schema.get("type")
    if types is None:
        types = next((name for name, keywords in _OF_TYPE if not schema.keys().isdisjoint(keywords)), None)
    if isinstance(types, str):
        return _of_type(types, schema, root, nested)
    if isinstance(types, list):
        return any_type(name for name in types if isinstance(name, str)) or None
    return _of_parts(schema, root, nested)


def options_of(options: Sequence[Any]) -> str:
    """The values of an `enum` as a phrase."""
    some = options[:MAX_QUOTED_LENGTH]  # more never fit; there are lists of a million
    listed = quoted(some).removeprefix("[").removesuffix("]")
    return f"one of {listed}" if len(options) > 1 else listed


def _of_parts(schema: Schema, root: Schema, nested: int) -> str | None:
    """The form that a schema without a type has by the schemas inside it."""
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(keyword), list):
            some = branches[: MAX_NAMED >> nested]  # the fewer the deeper, or there would be thousands in one phrase
            forms = [form_of(branch, root, nested + 1) for branch in some] + [None] * (len(some) < len(branches))
            phrases = list(dict.fromkeys(form or "a value of another allowed form" for form in forms))
            return " or ".join(phrases) if any(forms) else None
    if isinstance(parts := schema.get("allOf"), list):
        return next(filter(None, (form_of(part, root, nested + 1) for part in parts[:MAX_NAMED])), None)
    if isinstance(inner := schema.get("not"), dict):
        if isinstance(inner.get("not"), dict):  # how the explaining asks where there is no `if`
            return form_of(inner["not"], root, nested + 1)
        form = form_of(inner, root, nested + 1)
        return None if form is None else f"anything but {form}"
    return None


def _of_type(name: str, schema: Schema, root: Schema, nested: int) -> str:
    match name:
        case "object":
            return _object(schema, root, nested)
        case "array":
            form = form_of(schema.get("items"), root, nested + 1)
            return "an array" if form is None else f"an array of {_plural(form)}"
        case "string" if isinstance(pattern := schema.get("pattern"), str):
            return f"a string that matches the pattern {shortened(pattern)}"
        case "string" if isinstance(schema.get("format"), str):
            return in_format(schema["format"])
        case "integer" | "number":
            bounds = [f"{words} {quoted(schema[key])}" for key, words in _BOUNDS if _is_number(schema.get(key))]
            return any_type([name]) + (f" of {' and '.join(bounds)}" if bounds else "")
        case _:
            return any_type([name])


def _object(schema: Schema, root: Schema, nested: int) -> str:
    required = schema.get("required")
    properties = schema.get("properties")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if names:
        by_name = properties if isinstance(properties, dict) else {}
        members = [_member(name, by_name.get(name), root, nested) for name in names[:MAX_NAMED]]
        return f"an object with {', '.join(members)}{', ...' if len(names) > MAX_NAMED else ''}"
    title = schema.get("title")
    return f"an object ({shortened(title)})" if isinstance(title, str) and title else "an object"


def _member(name: str, schema: Any, root: Schema, nested: int) -> str:
    """A member, with its value where that distinguishes objects."""
    label = shortened(name)
    fixed = isinstance(schema, dict) and ("const" in schema or "enum" in schema)
    return f"{label} {form_of(schema, root, nested + 1)}" if fixed else label


def _plural(form: str) -> str:
    """The items of an array: `strings`, or what each is."""
    simple = form.removeprefix("an ").removeprefix("a ")
    return f"{simple}s" if simple.isalpha() and simple != form else f"values, each {form}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
