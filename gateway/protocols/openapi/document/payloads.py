"""The body of an operation's request as an argument: which media type is sent, and what its schema becomes.

OpenAPI 3.2, Media Type and Encoding Objects; RFC 7396, JSON Merge Patch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.arguments import is_field_name
from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.kinds import VALUES, kinds_of, of_kinds, restricted
from gateway.protocols.openapi.document.plan import STYLES, BodyKind, Field, OperationError, Style
from gateway.protocols.openapi.document.schemas import Direction, texts_of

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
JSON_PATCH = "application/json-patch+json"  # RFC 6902: an array of operations
MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")  # RFC 7396; of Kubernetes
CHOICE = ("application/json", "+json", FORM, MULTIPART, "text/plain", "application/octet-stream")  # the first wins

_IN_PLACE = ("allOf", "anyOf", "oneOf")
_RANGES = {"*/*": "application/json", "application/*": "application/json", "text/*": "text/plain"}

# As it may stand in a header.
MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+( *; *[\w!#$&^.+-]+=(\"[\w !#-~]*\"|[\w!#$&^.+:/-]+))*", re.ASCII)

_BASE64: JsonObject = {"type": "string", "contentEncoding": "base64"}
_FILE_MEMBERS: JsonObject = {"base64": _BASE64, "filename": {"type": "string"}, "content_type": {"type": "string"}}
FILE: JsonObject = {
    "anyOf": [
        {"type": "object", "properties": _FILE_MEMBERS, "required": ["base64"], "additionalProperties": False},
        _BASE64,
    ]
}
# RFC 6902, section 4, for documents that describe a patch as what it is applied to.
PATCH_OPERATIONS: JsonObject = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string"},
            "from": {"type": "string"},
            "value": {},
        },
        "required": ["op", "path"],
    },
}


class Payload(Struct, frozen=True, kw_only=True):
    """A body: what is sent, and its schema."""

    kind: BodyKind
    media_type: str
    schema: Json  # the document's, in which files are what callers give for them
    direction: Direction = "input"
    fields: Mapping[str, Field] = {}
    has_deep_lists: bool = False  # arrays that are themselves in the style deepObject


def payload_of(content: JsonObject, preferred: str | None, converter: Converter) -> Payload:
    """The body as one of the media types a document offers; `wanted` is the operator's. Raises OperationError."""
    media_type = _choose_media_type(content, preferred, converter)
    described = content[media_type]
    described = described if isinstance(described, dict) else {}
    kind, schema = media.essence(media_type), described.get("schema", {})
    sent = media_type.strip()
    if kind in _RANGES:
        kind = sent = _RANGES[kind]
    if MEDIA_TYPE.fullmatch(sent) is None:
        raise OperationError(f"Its body has the media type {sent[:64]!r}, which cannot be sent.")
    if kind == FORM or kind.startswith("multipart/"):
        return _form(kind, sent, described, converter)
    if kind in media.LINES:
        return Payload(kind="lines", media_type=sent, schema=_lines(described, converter))
    if kind == JSON_PATCH and _is_misnamed(kind, described, converter):
        schema = PATCH_OPERATIONS
    if media.is_json(kind):
        direction: Direction = "patch" if kind in MERGE_PATCHES else "input"
        return Payload(kind="json", media_type=sent, schema=schema, direction=direction)
    if media.is_text(kind):
        if {"object", "array"} & kinds_of(schema, converter):
            raise OperationError(f"Its body is a value written as {kind}, which is not made here.")
        return Payload(
            kind="text", media_type=sent, schema={"type": "string", **_annotations_of(schema, "enum", "pattern")}
        )
    return Payload(kind="bytes", media_type=sent, schema={**_BASE64, **_annotations_of(schema)})


def _choose_media_type(content: JsonObject, preferred: str | None, converter: Converter) -> str:
    """One of the media types. Raises OperationError if the operator wants another."""
    kinds = {media_type: media.essence(media_type) for media_type in content}
    if preferred:
        matching = [name for name, kind in kinds.items() if name == preferred or kind == media.essence(preferred)]
        if not matching:
            raise OperationError(
                f"media_type is {preferred!r}; the document offers {', '.join(sorted(content))[:200]}."
            )
        return matching[0]
    kinds = {name: kind for name, kind in kinds.items() if not _is_misnamed(kind, content[name], converter)} or kinds
    for choice in CHOICE:
        for name, kind in kinds.items():
            if kind == choice or (choice == "+json" and (media.is_json(kind) or kind in ("*/*", "application/*"))):
                return name
    return next(iter(kinds))


def _is_misnamed(kind: str, described: Json, converter: Converter) -> bool:
    """Whether a JSON patch is described as something else: documents list types for all bodies of a server alike."""
    schema = described.get("schema") if isinstance(described, dict) else None
    return kind == JSON_PATCH and kinds_of(schema, converter) - {"null"} != {"array"}


def _annotations_of(schema: Json, *keywords: str) -> JsonObject:
    """What a schema says of a text that is sent as it is."""
    if not isinstance(schema, dict):
        return {}
    return {keyword: schema[keyword] for keyword in ("title", "description", *keywords) if keyword in schema}


def _lines(described: JsonObject, converter: Converter) -> Json:
    """The schema of all lines together: documents describe all of them, or one (3.2 tells which)."""
    schema = described.get("schema", {})
    if "itemSchema" in described:
        return {"type": "array", "items": described["itemSchema"]}
    return schema if "array" in kinds_of(schema, converter) else {"type": "array", "items": schema}


def _form(kind: str, sent: str, described: JsonObject, converter: Converter) -> Payload:
    """A form, or a multipart body, whose members are parts. Raises OperationError."""
    is_multipart = kind != FORM
    follow = converter.document.follow
    schema, encoding = described.get("schema", {}), follow(described.get("encoding"))
    kinds = kinds_of(schema, converter)
    if kind not in (FORM, MULTIPART) or (kinds and "object" not in kinds):
        raise OperationError(f"Its body is {kind}, which is made of objects as a form only.")
    encodings = encoding if isinstance(encoding, dict) else {}
    fields: dict[str, Field] = {}
    has_deep_lists = False
    for part in converter.parts(converter.resolve(schema), *_IN_PLACE):
        properties = part.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            field = _field(inner, follow(encodings.get(name)), converter, is_multipart=is_multipart)
            if field != Field():
                fields[name] = field
            has_deep_lists |= field.style == "deepObject" and "array" in kinds_of(inner, converter)
    schema = of_kinds(schema, frozenset({"object"}), converter)
    if is_multipart:
        sent = MULTIPART  # a boundary is ours
    return Payload(
        kind="multipart" if is_multipart else "form",
        media_type=sent,
        schema=_with_fields(schema, fields, converter),
        fields=fields,
        has_deep_lists=has_deep_lists,
    )


def _field(schema: Json, encoding: Json, converter: Converter, *, is_multipart: bool) -> Field:
    rules = encoding if isinstance(encoding, dict) else {}
    style, explode, headers = rules.get("style"), rules.get("explode"), rules.get("headers")
    content_type = rules.get("contentType")
    content_type = content_type.strip() if isinstance(content_type, str) else ""
    field_style: Style = style if style in STYLES["query"] else "form"
    is_binary = is_multipart and _is_binary(schema, content_type, converter)
    if is_multipart:
        has_style = not is_binary and _is_styled_part(schema, field_style, explode, converter)
    else:
        has_style = style is not None or explode is not None or rules.get("allowReserved") is True
    return Field(
        content_type=content_type if MEDIA_TYPE.fullmatch(content_type) else "",
        style=field_style if has_style else None,
        explode=explode if isinstance(explode, bool) else field_style == "form",
        allow_reserved=has_style and rules.get("allowReserved") is True,
        is_binary=is_binary,
        headers=_fixed_headers(headers, converter) if is_multipart and isinstance(headers, dict) else {},
    )


def _is_styled_part(schema: Json, style: Style, explode: Json, converter: Converter) -> bool:
    """Whether a member of a multipart body is sent in a style that differs from parts for its items.

    By 3.0 styles count for nothing there, and tools write `form` beside all members. Documents that say more than that
    mean it: APIs that read brackets in forms read them in parts, and Swagger 2.0 joins arrays in all its forms.
    """
    if style == "deepObject":
        return True
    is_joined = explode is False or (style != "form" and explode is None)
    return is_joined and kinds_of(schema, converter) - {"null"} == {"array"}


def _is_binary(schema: Json, content_type: str, converter: Converter) -> bool:
    """Whether a member is a file, or an array of files; each may be one of several forms that it has."""
    if not isinstance(schema, dict):
        return False
    parts = list(converter.parts(schema, *_IN_PLACE))
    if any("items" in part and _is_binary(part["items"], content_type, converter) for part in parts):
        return True
    return any(map(_is_file, parts)) or (_is_bytes(content_type) and not kinds_of(schema, converter))


def _is_file(schema: JsonObject) -> bool:
    is_named = schema.get("type") == "file" or schema.get("format") == "binary"
    return is_named or schema.get("contentEncoding") == "base64" or _is_bytes(schema.get("contentMediaType"))


def _is_bytes(media_type: Json) -> bool:
    kind = media.essence(media_type) if isinstance(media_type, str) else ""
    return bool(kind) and not media.is_json(kind) and not media.is_text(kind)


def _fixed_headers(headers: JsonObject, converter: Converter) -> dict[str, str]:
    """Headers of a part for which the document allows one value only."""
    fixed: dict[str, str] = {}
    for name, header in headers.items():
        header = converter.document.follow(header)
        schema = converter.document.follow(header.get("schema")) if isinstance(header, dict) else None
        options = texts_of([schema.get("const")]) or texts_of(schema.get("enum")) if isinstance(schema, dict) else []
        values = [value for value in options if value.isprintable() and value.isascii()]
        if len(values) == 1 and is_field_name(name) and name.lower() not in ("content-type", "content-disposition"):
            fixed[name] = values[0]
    return fixed


def _with_fields(schema: Json, fields: Mapping[str, Field], converter: Converter) -> Json:
    """A schema in which members that are files are what callers give for one, and others have a form in their style.

    Raises OperationError if one that is required has none.
    """
    if not isinstance(schema, dict) or not any(field.is_binary or field.style for field in fields.values()):
        return schema
    schema = dict(converter.resolve(schema))
    for keyword in _IN_PLACE:
        if isinstance(branches := schema.get(keyword), list):
            schema[keyword] = [_with_fields(branch, fields, converter) for branch in branches]
    if isinstance(properties := schema.get("properties"), dict):
        required = texts_of(schema.get("required"))
        changed = {name: _member(inner, fields.get(name), converter) for name, inner in properties.items()}
        if gone := next((name for name in required if name in changed and changed[name] is False), ""):
            raise OperationError(f"The member {gone[:64]!r} of its body cannot be sent: its style has no form for it.")
        schema["properties"] = {name: inner for name, inner in changed.items() if inner is not False}
    return schema


def _member(schema: Json, field: Field | None, converter: Converter) -> Json:
    """A member as callers give it; false if none of its values has a form."""
    if field is None:
        return schema
    if field.is_binary:
        return _as_file(schema, converter)
    if field.style is None or field.style == "deepObject":
        return schema
    try:
        return restricted(schema, VALUES, converter)
    except OperationError:
        return False


def _as_file(schema: Json, converter: Converter) -> Json:
    annotations = {**_annotations_of(converter.resolve(schema)), **_annotations_of(schema)}
    for part in converter.parts(schema, *_IN_PLACE):
        if "items" in part:
            bounds = {keyword: part[keyword] for keyword in ("minItems", "maxItems") if keyword in part}
            return {**annotations, **bounds, "type": "array", "items": FILE}
    return {**annotations, **FILE}
