"""Texts that tool servers write about their tools, as people and models may read them."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gateway.core.model import Json, JsonObject, ToolDefinition

# What shows nothing and changes how the rest is read: control characters but line ends and tabs, directions of text,
# zero-width blanks, fillers, and the tags and selectors of variants, in which whole sentences can hide. Joiners and the
# selectors of emoji stay, since scripts and emoji need them, but no more than two in a row: more are hidden text, too.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<=[\u200c\u200d\ufe0e\ufe0f]{2})[\u200c\u200d\ufe0e\ufe0f]+"
)
# What a definition has as JSON text if it has any of these; often it has this without them.
_SUSPECT = re.compile(
    rb"\\u00|\\[bfr]|[\x7f\xc2\xd8\xe2\xef\xf3]"
    rb"|\xcd\x8f|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])|\xe3\x85\xa4|\xf0(?:\x9b\xb2|\x9d\x85)"
)
# Keywords of JSON Schema with values of arguments, or with what other parts of a schema are found by: a change would
# change what is valid.
_VALUES = frozenset({
    *("const", "default", "enum", "example", "examples", "pattern", "required", "dependentRequired", "type", "format"),
    *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "$schema", "id"),
})  # fmt: skip
_BY_NAME = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def visible(text: str) -> str:
    """A text without characters that do not show."""
    if text.isascii() and text.isprintable():
        return text
    return INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_suspect(encoded: bytes) -> bool:
    """Whether a definition may have characters that do not show, by its JSON text."""
    return _SUSPECT.search(encoded) is not None


def with_visible_texts(definition: ToolDefinition) -> ToolDefinition:
    """A definition in which all that people and models read shows.

    The names and values in its schemas stay as they are, because they are compared with what is sent.
    """
    return replace(
        definition,
        description=visible(definition.description),
        title=_shown(definition.title),
        toolkit_description=_shown(definition.toolkit_description),
        output_description=_shown(definition.output_description),
        input_schema=_of_schema(definition.input_schema),
        output_schema=None if definition.output_schema is None else _of_schema(definition.output_schema),
    )


def _shown(text: str | None) -> str | None:
    return None if text is None else visible(text)


def _of_schema(schema: JsonObject) -> JsonObject:
    return {key: value if key in _VALUES else _of_member(key, value) for key, value in schema.items()}


def _of_member(keyword: str, value: Json) -> Json:
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: _of_any(inner) for name, inner in value.items()}
    return _of_any(value)


def _of_any(value: Json) -> Json:
    match value:
        case str():
            return visible(value)
        case dict():
            return _of_schema(value)
        case list():
            return [_of_any(item) for item in value]
    return value
