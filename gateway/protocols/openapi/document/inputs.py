"""What a tool takes: the parameters of its operation side by side, and the body as the argument `body`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET, Struct
from msgspec.structs import replace

from gateway.core.jsontext import encode, split_pointer
from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document.arguments import BODY, Argument, arguments_of
from gateway.protocols.openapi.document.bodies import FORMS
from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.curation import Terms, ToolTerms
from gateway.protocols.openapi.document.kinds import kinds_of
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.payloads import payload_of
from gateway.protocols.openapi.document.plan import (
    METHOD_FIELD,
    BodyPlan,
    DeepArrays,
    OperationError,
    Parameter,
    UnresolvedError,
)
from gateway.protocols.openapi.document.schemas import Needed, texts_of
from gateway.protocols.openapi.document.texts import harmless
from gateway.schemas.inline import with_subschemas

DESCRIBED_DEPTH = 3  # schemas one inside the other whose descriptions stay in one that is too large
USUALLY_WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS")  # RFC 9110, 9.3: a body there means nothing by itself


class Input(Struct, frozen=True, kw_only=True):
    """The schema of a tool's arguments, and how they are sent."""

    schema: JsonObject
    parameters: tuple[Parameter, ...]
    body: BodyPlan | None
    warnings: tuple[str, ...] = ()
    not_inferrable: tuple[str, ...] = ()  # arguments that no model can know


def input_of(
    operation: Operation,
    converter: Converter,
    terms: Terms,
    tool_terms: ToolTerms,
    excluded: Collection[tuple[str, str]] = (),
) -> Input:
    """Reads what an operation takes. Raises OperationError for one that cannot be called, or not as its terms want.

    `excluded` are places of credentials, as pairs of header, query or cookie and a name: no argument is sent there.
    """
    try:
        return _input_of(operation, converter, terms, tool_terms, excluded)
    except RecursionError as exc:
        raise OperationError("One of its schemas is nested too deeply, or stands inside itself.") from exc


def _input_of(
    operation: Operation,
    converter: Converter,
    terms: Terms,
    tool_terms: ToolTerms,
    excluded: Collection[tuple[str, str]],
) -> Input:
    if terms.key_header:
        excluded = {*excluded, ("header", terms.key_header.lower())}
    warnings: list[str] = []
    given_names = {*terms.arguments, *tool_terms.arguments, *tool_terms.hide}
    arguments = arguments_of(operation, converter, excluded, warnings, given_names)
    _check_names(arguments, operation, tool_terms)
    arguments = _apply_terms(arguments, operation, terms, tool_terms)
    needed: Needed = {}
    properties: JsonObject = {}
    for argument in [argument for argument in arguments if argument.fixed is UNSET]:
        try:
            schema = converter.convert(argument.schema, "input", needed)
        except UnresolvedError as exc:
            if argument.required:
                raise
            warnings.append(f"Its parameter {argument.name[:64]!r} is left out: {exc}")
            arguments.remove(argument)
            continue
        properties[argument.argument] = _described(schema, _descriptions(argument, tool_terms))
    shown = [argument for argument in arguments if argument.fixed is UNSET]
    required = [argument.argument for argument in shown if argument.required]
    body = _body(operation, converter, terms, tool_terms, needed, properties, required, warnings)
    schema = _root(properties, required, converter.definitions(needed))
    arrays = _deep_arrays(terms, arguments, body, converter)
    return Input(
        schema=_shrink(schema, terms.bounds.max_schema_bytes, warnings),
        parameters=tuple(_parameter(argument, arrays) for argument in arguments),
        body=body and replace(body, deep_arrays=arrays if _is_deep(body) else "repeat"),
        warnings=tuple(warnings),
        not_inferrable=tuple(
            argument.argument for argument in shown if argument.required and argument.where in ("header", "cookie")
        ),
    )


def _root(properties: JsonObject, required: list[str], definitions: JsonObject) -> JsonObject:
    root: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        root["required"] = required
    if definitions:
        root["$defs"] = definitions
    return root


def _is_deep(body: BodyPlan) -> bool:
    return any(field.style == "deepObject" for field in body.fields.values())


def _deep_arrays(terms: Terms, arguments: list[Argument], body: BodyPlan | None, converter: Converter) -> DeepArrays:
    """How arrays within values in the style deepObject are sent.

    An array that is such a value itself has brackets only, so that an API that takes one reads brackets.
    """
    if terms.deep_arrays != "auto":
        return terms.deep_arrays
    if body is not None and body.deep_arrays == "brackets":
        return "brackets"
    deep = [argument.schema for argument in arguments if argument.style == "deepObject" and not argument.media_type]
    return "brackets" if any("array" in kinds_of(schema, converter) for schema in deep) else "repeat"


def _parameter(argument: Argument, arrays: DeepArrays) -> Parameter:
    return Parameter(
        argument=argument.argument,
        name=argument.name,
        where=argument.where,
        style=argument.style,
        explode=argument.explode,
        required=argument.required,
        allow_reserved=argument.allow_reserved,
        media_type=argument.media_type,
        encoded_slashes=argument.where == "path" and argument.encoded_slashes,
        deep_arrays=arrays if argument.style == "deepObject" else "repeat",
        fixed=argument.fixed,
    )


def _descriptions(argument: Argument, tool_terms: ToolTerms) -> tuple[str, ...]:
    """What a parameter says of itself, and what else there is to say of it."""
    is_changed = argument.argument not in (argument.name, *tool_terms.rename.values())
    return (
        argument.description,
        "(deprecated)" if argument.is_deprecated else "",
        f"(sent as {harmless(argument.name)})" if is_changed and argument.where != "querystring" else "",
    )


def _described(schema: JsonObject, texts: tuple[str, ...]) -> JsonObject:
    """A converted schema with the description of its place, which says more than that of its type."""
    description, *more = texts
    text = " ".join(filter(None, (harmless(description) or schema.get("description", ""), *more)))
    return {**schema, "description": text} if text else schema


# What the operator says of arguments.


def _check_names(arguments: list[Argument], operation: Operation, tool_terms: ToolTerms) -> None:
    """Raises OperationError for terms about arguments that there are not: a value that was to be fixed would not be."""
    names = {argument.argument for argument in arguments} | {argument.name for argument in arguments}
    for name in (*tool_terms.arguments, *tool_terms.hide, *tool_terms.rename, *tool_terms.encoded_slashes):
        about_body = operation.body is not None and (name == BODY or name.startswith(POINTER))
        if name not in names and not about_body:
            have = ", ".join(sorted(argument.argument for argument in arguments))[:200] or "none"
            raise OperationError(
                f"Its entry under tools names the argument {name[:64]!r}, which the operation does not have; "
                f"it has {have}."
            )


def _fixed(arguments: list[Argument], values: Mapping[str, Json]) -> dict[str, Json]:
    """The values that the operator gives arguments, which are named as such or as the document names them."""
    own = {argument.argument for argument in arguments}
    fixed: dict[str, Json] = {}
    for argument in arguments:
        if argument.argument in values:
            fixed[argument.argument] = values[argument.argument]
        elif argument.name in values and argument.name not in own:
            fixed[argument.argument] = values[argument.name]
    return fixed


def _hidden(arguments: list[Argument], fixed: Mapping[str, Json], tool_terms: ToolTerms) -> set[str]:
    """The arguments that are left out. Raises OperationError for one without which there is no call."""
    own = {argument.argument for argument in arguments}
    hidden = {
        argument.argument
        for argument in arguments
        if argument.argument in tool_terms.hide or (argument.name in tool_terms.hide and argument.name not in own)
    } - fixed.keys()
    for argument in arguments:
        if argument.argument in hidden and argument.required:
            raise OperationError(
                f"Its entry under tools hides the argument {argument.argument!r}, which is required; give it a value."
            )
    return hidden


def _apply_terms(
    arguments: list[Argument], operation: Operation, terms: Terms, tool_terms: ToolTerms
) -> list[Argument]:
    """The arguments with the operator's values, and by the operator's names. Raises OperationError."""
    values = _fixed(arguments, terms.arguments) | _fixed(arguments, tool_terms.arguments)
    fixed = dict.fromkeys(_hidden(arguments, values, tool_terms)) | values  # null is not sent
    own = {argument.argument for argument in arguments}
    changed: list[Argument] = []
    for argument in arguments:
        key = argument.argument if argument.argument in tool_terms.rename or argument.name in own else argument.name
        if key in tool_terms.rename and argument.argument in fixed:
            raise OperationError(f"Its entry under tools renames the argument {key[:64]!r}, which callers do not see.")
        changed.append(
            replace(
                argument,
                argument=tool_terms.rename.get(key, argument.argument),
                fixed=fixed.get(argument.argument, UNSET),
                encoded_slashes=argument.argument in tool_terms.encoded_slashes,
            )
        )
    names = [argument.argument for argument in changed if argument.fixed is UNSET]
    names += [tool_terms.rename.get(BODY, BODY)] if operation.body is not None else []
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise OperationError(f"Its entry under tools gives two of its arguments the name {twice!r}.")
    return changed


# The body.


def _body(
    operation: Operation,
    converter: Converter,
    terms: Terms,
    tool_terms: ToolTerms,
    needed: Needed,
    properties: JsonObject,
    required: list[str],
    warnings: list[str],
) -> BodyPlan | None:
    """The body, with its argument among `properties` unless the operator gives all of it. Raises OperationError."""
    content = operation.body.get("content") if operation.body is not None else None
    if operation.body is None or not isinstance(content, dict) or not content:
        return None
    payload, argument = payload_of(content, tool_terms.media_type, converter), tool_terms.rename.get(BODY, BODY)
    is_required = operation.body.get("required") is True
    if BODY in tool_terms.hide:
        if is_required:
            raise OperationError("Its entry under tools hides the body, which is required; give it a value.")
        return None
    if operation.method in USUALLY_WITHOUT_BODY:
        warnings.append(f"It takes a body with {operation.method}, which some servers and proxies drop.")
    schema, fixed, hidden = without_operators_members(payload.schema, converter, terms, tool_terms)
    if payload.kind in FORMS and not has_member(payload.schema, METHOD_FIELD, converter):
        hidden += (f"/{METHOD_FIELD}",)
    if "" not in fixed:
        try:
            converted = converter.convert(schema, payload.direction, needed)
        except UnresolvedError as exc:
            if is_required or fixed:
                raise
            warnings.append(f"Its body is left out: {exc}")
            return None
        description = operation.body.get("description")
        properties[argument] = _described(converted, (description if isinstance(description, str) else "",))
        if is_required and not (fixed and not requires_members(schema, converter)):
            required.append(argument)
    return BodyPlan(
        kind=payload.kind,
        media_type=payload.media_type,
        required=is_required,
        fields=payload.fields,
        deep_arrays="brackets" if payload.has_deep_lists else "repeat",
        fixed=fixed,
        hidden=hidden,
        argument=argument,
    )


# The size.


def _shrink(schema: JsonObject, most: int, warnings: list[str]) -> JsonObject:
    """A schema of so many bytes at most, if need be without what its inner parts say of themselves.

    Raises OperationError.
    """
    size = len(encode(schema))
    if size <= most:
        return schema
    small = _undescribed(schema, 0)
    if (small_size := len(encode(small))) > most:
        raise OperationError(f"Its input schema has {small_size} bytes; {most} are allowed (discovery.max_schema).")
    warnings.append(f"Its input schema has {size} bytes; the descriptions of inner members are left out.")
    return small


def _undescribed(schema: JsonObject, depth: int) -> JsonObject:
    """A copy without the descriptions of schemas that stand deeper. A definition stands as deep as the body."""
    result = with_subschemas(schema, lambda inner: _undescribed(inner, depth + 1))
    if depth > DESCRIBED_DEPTH:
        result.pop("description", None)
    return result


POINTER = f"/{BODY}/"  # begins the JSON Pointer to a member of the body

_IN_PLACE = ("allOf", "anyOf", "oneOf")


class CallerBody(NamedTuple):
    """A body without the members that the operator fixes or hides."""

    schema: Json
    fixed: dict[str, Json]  # the operator's values, by JSON Pointer
    hidden: tuple[str, ...] = ()  # JSON Pointers


def without_operators_members(schema: Json, converter: Converter, terms: Terms, tool_terms: ToolTerms) -> CallerBody:
    """Takes members out of a body.

    What is said for all operations is for those whose body has such a member. Raises OperationError for terms that the
    body does not fit.
    """
    if BODY in tool_terms.arguments:
        return CallerBody(schema, {"": tool_terms.arguments[BODY]})
    values = {name: value for name, value in terms.arguments.items() if name.startswith(POINTER)}
    values = {name: value for name, value in values.items() if _is_declared(schema, _tokens(name), converter)}
    values |= {name: value for name, value in tool_terms.arguments.items() if name.startswith(POINTER)}
    for name in values:
        schema = _without_member(schema, _tokens(name), converter)
    hidden = [name for name in tool_terms.hide if name.startswith(POINTER) and name not in values]
    for name in hidden:
        schema = _without_member(schema, _tokens(name), converter, is_hidden=True)
    return CallerBody(schema, {_below(name): value for name, value in values.items()}, tuple(map(_below, hidden)))


def has_member(schema: Json, name: str, converter: Converter) -> bool:
    """Whether an object is described as one that may have a member of that name."""
    return name in _members(schema, converter)


def _below(pointer: str) -> str:
    return pointer.removeprefix(f"/{BODY}")


def requires_members(schema: Json, converter: Converter) -> bool:
    """Whether an object that fits a schema may have to have members."""
    return any(texts_of(part.get("required")) for part in _parts(schema, converter))


def _tokens(pointer: str) -> list[str]:
    return split_pointer(pointer)[1:]


def _parts(schema: Json, converter: Converter) -> list[JsonObject]:
    return list(converter.parts(schema, *_IN_PLACE)) if isinstance(schema, dict) else []


def _members(schema: Json, converter: Converter) -> dict[str, Json]:
    """The schemas of members, wherever the object is described."""
    properties = [part.get("properties") for part in _parts(schema, converter)]
    return {name: inner for named in properties if isinstance(named, dict) for name, inner in named.items()}


def _is_declared(schema: Json, tokens: Sequence[str], converter: Converter) -> bool:
    for token in tokens:
        members = _members(schema, converter)
        if token not in members:
            return False
        schema = members[token]
    return True


def _without_member(schema: Json, tokens: Sequence[str], converter: Converter, *, is_hidden: bool = False) -> Json:
    """A schema without one member. Raises OperationError if there is no such member, or it is hidden and required.

    An object of which nothing is said may have any.
    """
    kinds, members = kinds_of(schema, converter), _members(schema, converter)
    token, *rest = tokens
    if (kinds and "object" not in kinds) or (members and token not in members):
        raise OperationError(
            f"The configuration names {'/'.join(tokens)[:64]!r} in its body, which has no such member."
        )
    if is_hidden and not rest and any(token in texts_of(part.get("required")) for part in _parts(schema, converter)):
        raise OperationError(f"The configuration hides {token[:64]!r} in its body, which is required; give it a value.")
    if rest and token not in members:
        return schema  # what is inside an object of which nothing is said
    schema = _strip_member(schema, tokens, converter, is_hidden=is_hidden)
    if rest or not isinstance(schema, dict):
        return schema
    unwanted = {"not": {"required": [token]}}
    return {**schema, "allOf": [*(schema.get("allOf") or ()), unwanted]}


def _strip_member(schema: Json, tokens: Sequence[str], converter: Converter, *, is_hidden: bool) -> Json:
    if not isinstance(schema, dict):
        return schema
    schema = dict(converter.resolve(schema))
    token, *rest = tokens
    for keyword in _IN_PLACE:
        if isinstance(branches := schema.get(keyword), list):
            schema[keyword] = [_strip_member(branch, tokens, converter, is_hidden=is_hidden) for branch in branches]
    properties = schema.get("properties")
    if isinstance(properties, dict) and token in properties:
        inner = {token: _without_member(properties[token], rest, converter, is_hidden=is_hidden)} if rest else {}
        schema["properties"] = {name: inner for name, inner in properties.items() if name != token} | inner
    if not rest and isinstance(required := schema.get("required"), list):
        schema["required"] = [name for name in required if name != token]
    return schema
