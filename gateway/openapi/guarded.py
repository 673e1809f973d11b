"""Members of a body that callers neither give nor change: fixed values, and what is hidden.

Servers do not all read a body as it is written: many take `Owner` for `owner`, and in forms `owner[]`, `owner[0]` and
`owner.x` too. So a member is refused that some server would take for such a one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gateway import jsontext
from gateway.model import Json
from gateway.openapi.plan import BodyPlan, Field
from gateway.openapi.serialise import UnsendableError

FORMS = ("form", "multipart")
GUARDED = "has a member that is, or is taken for, one that callers do not give"

_between = re.compile(r"[\[\].\x00]+").split  # names of members in the name of a field
_BLANKS = str.maketrans(". ", "__")  # as PHP has them in the names of fields


def with_fixed(plan: BodyPlan, value: Json) -> Json:
    """The value of a body with the operator's values in it. Raises UnsendableError for a member that is guarded."""
    for pointer in (*plan.hidden, *plan.fixed):
        tokens = jsontext.split_pointer(pointer)
        if plan.kind in FORMS and type(value) is dict:
            _check_fields(value, tokens, plan.fields)
        _check_members(value, tokens, is_fixed=pointer in plan.fixed)
    for pointer, fixed in plan.fixed.items():
        value = _with_fixed(value, jsontext.split_pointer(pointer), fixed)
    return value


def _with_fixed(value: Json, tokens: Sequence[str], fixed: Json) -> Json:
    """The value with another at a JSON Pointer, whose missing objects are made; what is given stays as it is."""
    if not tokens:
        return fixed
    token, *rest = tokens
    if isinstance(value, list):
        if not token.isdecimal() or int(token) >= len(value):
            raise UnsendableError("lacks the item whose value is fixed")
        return [_with_fixed(item, rest, fixed) if at == int(token) else item for at, item in enumerate(value)]
    if value is not None and not isinstance(value, dict):
        raise UnsendableError("is no object where a member's value is fixed")
    members = value or {}
    return {**members, token: _with_fixed(members.get(token), rest, fixed)}


def _check_members(value: Json, tokens: Sequence[str], *, is_fixed: bool) -> None:
    """Refuses members on the way to a guarded one that differ from it, or from those around it, in case alone."""
    for at, token in enumerate(tokens):
        if isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
            continue
        if not isinstance(value, dict):
            return
        folded = token.casefold()
        if any(name != token and name.casefold() == folded for name in value):
            raise UnsendableError(GUARDED)
        if token not in value:
            return
        if at == len(tokens) - 1 and not is_fixed:
            raise UnsendableError(GUARDED)
        value = value[token]


def _check_fields(members: Mapping[str, Json], tokens: Sequence[str], fields: Mapping[str, Field]) -> None:
    """Refuses fields of a form that frameworks would put where a guarded member is."""
    guarded = tuple(part for token in tokens for part in _parts(token))
    for name, inner in _fields(members, fields, tokens[0]):
        if _reaches(_parts(name), inner, guarded) or _parts(name.translate(_BLANKS)) == guarded:
            raise UnsendableError(GUARDED)


def _fields(members: Mapping[str, Json], fields: Mapping[str, Field], but: str) -> Iterator[tuple[str, Json]]:
    """The fields that members become, one of which may become several; `but` is the member that is itself meant."""
    for name, inner in members.items():
        field = fields.get(name)
        if field is not None and field.style == "form" and field.explode and type(inner) is dict:
            yield from inner.items()
        elif name != but:
            yield name, inner


def _parts(name: str) -> tuple[str, ...]:
    """The names of members one inside the other that a field means: `a[B].c` has `a`, `b` and `c`."""
    return tuple(part.strip().casefold() for part in _between(name) if part.strip())


def _reaches(path: Sequence[str], inner: Json, guarded: Sequence[str]) -> bool:
    """Whether a field with that path, or something in it, would be the guarded member, or a part of it."""
    if len(path) >= len(guarded):
        return tuple(path[: len(guarded)]) == tuple(guarded)
    if tuple(guarded[: len(path)]) != tuple(path) or not isinstance(inner, dict):
        return False
    return any(_reaches((*path, *_parts(name)), one, guarded) for name, one in inner.items())
