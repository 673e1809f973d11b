"""Members of a body that the operator gives a value, or hides: no caller sees them, or sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.jsontext import split_pointer
from gateway.model import Json, JsonObject
from gateway.openapi.arguments import BODY
from gateway.openapi.errors import OperationError
from gateway.openapi.keywords import texts_of
from gateway.openapi.kinds import kinds_of
from gateway.openapi.schemas import Converter
from gateway.openapi.terms import Terms, ToolTerms

POINTER = f"/{BODY}/"  # begins the JSON Pointer to a member of the body

_IN_PLACE = ("allOf", "anyOf", "oneOf")


class Taken(NamedTuple):
    """The schema of a body without members of which the operator speaks.

    `fixed` are the values of some by JSON Pointer, `hidden` the pointers of the others.
    """

    schema: Json
    fixed: dict[str, Json]
    hidden: tuple[str, ...] = ()


def taken_out(schema: Json, converter: Converter, terms: Terms, tool_terms: ToolTerms) -> Taken:
    """Takes members out of a body.

    What is said for all operations is for those whose body has such a member. Raises OperationError for terms that the
    body does not fit.
    """
    if BODY in tool_terms.arguments:
        return Taken(schema, {"": tool_terms.arguments[BODY]})
    values = {name: value for name, value in terms.arguments.items() if name.startswith(POINTER)}
    values = {name: value for name, value in values.items() if _is_declared(schema, _tokens(name), converter)}
    values |= {name: value for name, value in tool_terms.arguments.items() if name.startswith(POINTER)}
    for name in values:
        schema = _taken(schema, _tokens(name), converter)
    hidden = [name for name in tool_terms.hide if name.startswith(POINTER) and name not in values]
    for name in hidden:
        schema = _taken(schema, _tokens(name), converter, is_hidden=True)
    return Taken(schema, {_below(name): value for name, value in values.items()}, tuple(map(_below, hidden)))


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


def _taken(schema: Json, tokens: Sequence[str], converter: Converter, *, is_hidden: bool = False) -> Json:
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
    schema = _without(schema, tokens, converter, is_hidden=is_hidden)
    if rest or not isinstance(schema, dict):
        return schema
    unwanted = {"not": {"required": [token]}}
    return {**schema, "allOf": [*(schema.get("allOf") or ()), unwanted]}


def _without(schema: Json, tokens: Sequence[str], converter: Converter, *, is_hidden: bool) -> Json:
    if not isinstance(schema, dict):
        return schema
    schema = dict(converter.resolve(schema))
    token, *rest = tokens
    for keyword in _IN_PLACE:
        if isinstance(branches := schema.get(keyword), list):
            schema[keyword] = [_without(branch, tokens, converter, is_hidden=is_hidden) for branch in branches]
    properties = schema.get("properties")
    if isinstance(properties, dict) and token in properties:
        inner = {token: _taken(properties[token], rest, converter, is_hidden=is_hidden)} if rest else {}
        schema["properties"] = {name: one for name, one in properties.items() if name != token} | inner
    if not rest and isinstance(required := schema.get("required"), list):
        schema["required"] = [name for name in required if name != token]
    return schema
