"""Input schemas as all large clients of MCP take them: the root a plain object, without compositions.

Every value that is valid against a schema fits what is listed in its place. Calls are checked against the true schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from gateway.core.model import Json, JsonObject
from gateway.schemas.inline import with_subschemas
from gateway.schemas.references import is_before_2019

# At the root these make the model APIs refuse the tool, or the whole list. What they say of members is shown otherwise.
COMPOSITIONS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "$ref")
# They look at members that compositions have allowed.
UNEVALUATED = "unevaluatedProperties"
PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # the names of arguments that the large model APIs take
HEADER = "x-mcp-header"
MAX_DEPTH = 8  # of compositions in compositions; what is deeper is not shown
ANYTHING: JsonObject = {}

Schema = Any  # an object, or a boolean


class _MembersView(Struct, frozen=True):
    """What a schema says of the members of an object. `is_closed`: it allows no others.

    A value that the schema allows has all of `required`, and those of `properties` that it has fit.
    """

    properties: JsonObject
    required: tuple[str, ...]
    is_closed: bool


def compatible(schema: JsonObject) -> JsonObject:
    """A schema whose root is a plain object, which every object fits that the original allows."""
    has_compositions = any(keyword in schema for keyword in COMPOSITIONS)
    if not has_compositions:
        return {**schema, "type": "object", "properties": schema.get("properties", {})}  # some APIs refuse it without
    view = _view(schema, schema, 0)
    plain = {key: value for key, value in schema.items() if key not in COMPOSITIONS and key != UNEVALUATED}
    if is_before_2019(schema) and "$ref" in schema:  # what stands beside it counts for nothing
        plain = {key: plain[key] for key in ("$schema", "$id", "title", "description", "definitions") if key in plain}
    plain |= {"type": "object", "properties": view.properties}
    if view.required:
        plain["required"] = list(view.required)
    if any(ref == "#" or ref.split("/")[1] in COMPOSITIONS for ref in _refs(plain)):  # what it names is not there
        names = dict.fromkeys(view.properties, ANYTHING)
        return {"type": "object", "properties": names}
    return plain


def unlisted_name(schema: JsonObject) -> str | None:
    """The name of an argument for which the large model APIs refuse a tool; None if there is none."""
    names = _object(schema.get("properties"))
    return next((name for name in names if PROPERTY.fullmatch(name) is None), None)


def without_header_names(schema: Schema) -> Schema:
    """A schema without `x-mcp-header`: we compare no such headers, and where it is misplaced, clients drop the tool."""
    if not isinstance(schema, dict):
        return schema
    result = with_subschemas(schema, without_header_names)
    result.pop(HEADER, None)
    return result


def _view(schema: Schema, root: JsonObject, depth: int) -> _MembersView:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return _MembersView({}, (), is_closed=False)
    is_ref_alone = is_before_2019(root) and isinstance(schema.get("$ref"), str)
    own = {"$ref": schema["$ref"]} if is_ref_alone else schema
    properties = dict(_object(own.get("properties")))
    required = dict.fromkeys(_names(own.get("required")))
    is_closed = own.get("additionalProperties") is False and not own.get("patternProperties")
    for group in _groups(own, root):
        views = [_view(branch, root, depth + 1) for branch in group if branch is not False]
        if not views:
            continue  # nothing fits, whatever is shown
        for name in dict.fromkeys(name for view in views for name in view.properties):
            if name not in properties and not is_closed:
                properties[name] = _property(name, views)
        in_all = set.intersection(*(set(view.required) for view in views))
        required |= dict.fromkeys(name for name in views[0].required if name in in_all)
    return _MembersView(properties, tuple(required), is_closed)


def _groups(schema: JsonObject, root: JsonObject) -> Iterator[Sequence[Schema]]:
    """Schemas of which a value fits at least one, for each composition."""
    if isinstance(ref := schema.get("$ref"), str):
        yield [_target(ref, root)]
    for branch in _list(schema.get("allOf")):
        yield [branch]
    for keyword in ("anyOf", "oneOf"):
        if branches := _list(schema.get(keyword)):
            yield branches
    if "if" in schema:
        yield [schema.get("then", ANYTHING), schema.get("else", ANYTHING)]
    for branch in _object(schema.get("dependentSchemas")).values():
        yield [branch, ANYTHING]


def _property(name: str, views: Sequence[_MembersView]) -> Json:
    """What a member fits if its object fits one of the views."""
    schemas: list[Json] = []
    for view in views:
        if name in view.properties:
            schema = view.properties[name]
        elif view.is_closed:
            continue  # there the object has no such member
        else:
            schema = ANYTHING
        if schema not in schemas:
            schemas.append(schema)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _target(ref: str, root: JsonObject) -> Schema:
    """What a pointer names; anything if that cannot be found."""
    target: Json = root
    for key in ref.removeprefix("#").split("/")[1:]:
        target = target.get(key) if isinstance(target, dict) else None
    return target if ref == "#" or (ref.startswith("#/") and isinstance(target, dict | bool)) else ANYTHING


def _refs(value: Json) -> Iterator[str]:
    """All references, and perhaps texts that look like some."""
    if isinstance(value, list):
        for inner in value:
            yield from _refs(inner)
    elif isinstance(value, dict):
        ref = value.get("$ref")
        if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
            yield ref
        for inner in value.values():
            yield from _refs(inner)


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> Sequence[Schema]:
    return value if isinstance(value, list) else ()


def _names(value: Json) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()
