"""Reads documents with very many values, and leaves the part that only passes through as text."""

from __future__ import annotations

from gateway import jsontext
from gateway.model import Json, JsonObject

WRAPPINGS = 4  # objects around the members that may stay encoded: `request`, `result`, `output`, `context`
LONG = 64 * 1024  # characters of a string that is taken out as well
FEW = 64  # entries of a list in which such members are looked for


def read_document(text: bytes, depth: bytes, *members: bytes) -> tuple[bytes, ...]:
    """Checks a JSON document and encodes it again, so that what goes on is what was checked.

    `depth` is how deep it may be nested, in decimal. Objects, arrays and long strings under `members`, at most four
    objects or a short list deep, are taken out. Returns `(b"", rest, path, value, path, value, ...)`, where each path
    is a JSON array of names and indices, or `(reason,)` if the text is not JSON as `jsontext` takes it.
    """
    try:
        document = jsontext.decode(text, int(depth))
    except jsontext.JsonError as exc:
        return (str(exc).encode(),)
    names = {member.decode() for member in members}
    taken: list[bytes] = []
    rest = _without(document, names, (), taken)
    return (b"", jsontext.encode(rest), *taken)


def _without(value: Json, names: set[str], path: tuple[str | int, ...], taken: list[bytes]) -> Json:
    """A copy of the outer objects in which the members of those names are null; what they were is in `taken`."""
    if isinstance(value, list) and not path and len(value) <= FEW:
        return [_without(inner, names, (index,), taken) for index, inner in enumerate(value)]
    if not isinstance(value, dict) or len(path) == WRAPPINGS:
        return value
    rest: JsonObject = {}
    for name, inner in value.items():
        if name in names and (isinstance(inner, dict | list) or (isinstance(inner, str) and len(inner) > LONG)):
            rest[name] = None
            taken += (jsontext.encode((*path, name)), jsontext.encode(inner))
        else:
            rest[name] = _without(inner, names, (*path, name), taken)
    return rest
