"""What tools made of operations are called: names that do not depend on the order of a document, versions, texts."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum

from gateway.naming import DEFAULT_VERSION, DIGEST_LENGTH, full_version, word
from gateway.openapi.curation import tool_terms
from gateway.openapi.operations import Operation
from gateway.openapi.paths import PLACEHOLDER
from gateway.openapi.terms import Terms, ToolTerms
from gateway.openapi.texts import MAX_READ, cut, harmless

MAX_WORD = 128  # characters of a tool's name without its toolkit
MAX_DESCRIPTION = 1024  # characters; the tool interfaces of common models cut off there
VERSION = re.compile(r"[vV]?(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9}){0,2})(?P<rest>(?:[-+. _].*)?)", re.DOTALL)
DATE = re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?P<rest>(?:[-+. _T].*)?)", re.DOTALL)
SHOWN = 40  # characters of a version in a warning


class Make(IntEnum):
    """What a name is made of; each where the one before is not the only one of its kind."""

    GIVEN, ID, PLACE, DIGEST = range(4)


def tool_names(operations: Iterable[Operation], terms: Terms) -> dict[str, str]:
    """Names all operations of a document, chosen or not, by their places; names that the operator gives stand.

    Where several operations would have one name, all of them are called by method and path, and with a digest of these
    if that is not enough. So no name depends on the order of operations, nor on others unless they have the same.
    """
    known = {operation.place: operation for operation in operations}
    makes = {place: Make.GIVEN if tool_terms(operation, terms).name else Make.ID for place, operation in known.items()}
    names = {place: _name(operation, makes[place], terms) for place, operation in known.items()}
    while shared := _shared(names, makes):
        for place in shared:
            makes[place] = Make(makes[place] + 1)
            names[place] = _name(known[place], makes[place], terms)
    return names


def _shared(names: Mapping[str, str], makes: Mapping[str, Make]) -> list[str]:
    """The places of operations that need another name: all that share one, but for the only one it is given to."""
    places = defaultdict[str, list[str]](list)
    for place, name in names.items():
        places[name.lower()].append(place)
    found: list[str] = []
    for several in places.values():
        if len(several) > 1:
            given = [place for place in several if makes[place] == Make.GIVEN]
            found += several if len(given) != 1 else [place for place in several if place != given[0]]
    return [place for place in found if makes[place] < Make.DIGEST]


def _name(operation: Operation, make: Make, terms: Terms) -> str:
    match make:
        case Make.GIVEN:
            return tool_terms(operation, terms).name
        case Make.ID:
            return _by_id(operation) or _by_place(operation)
        case Make.PLACE:
            return _by_place(operation)
    return _by_digest(operation)


def _by_id(operation: Operation) -> str:
    """The operationId as a word; empty if nothing of it is left."""
    name = word(operation.id)
    return _short(name, operation.id) if name.strip("_") else ""


def _by_place(operation: Operation) -> str:
    """`get_repos_by_owner_issues`; `get_root` for the path `/`."""
    path = PLACEHOLDER.sub(r"by_\1", operation.template.lower())
    name = word(f"{operation.method.lower()}{path}").rstrip("_")
    return _short(name if path.strip("/") else f"{name}_root", operation.place)


def _by_digest(operation: Operation) -> str:
    name = _by_place(operation)[: MAX_WORD - DIGEST_LENGTH - 1]
    return f"{name}_{_digest(operation.place)}"


def _short(name: str, whole: str) -> str:
    if len(name) <= MAX_WORD:
        return name
    return f"{name[: MAX_WORD - DIGEST_LENGTH - 1]}_{_digest(whole)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def version_of(text: str) -> tuple[str, str]:
    """`x.y.z` of a document's version, and a warning if that says less than the document, else an empty text."""
    text = text.strip()
    if date := DATE.fullmatch(text):
        version = full_version(f"{date['year']}.{date['month']}.{date['day']}")
        return version, _less(text, version) if date["rest"] else ""
    found = VERSION.fullmatch(text)
    if found is None:
        return DEFAULT_VERSION, f"The document's version {text[:SHOWN]!r} is no number; {DEFAULT_VERSION} stands in."
    version = full_version(found["numbers"])
    return version, _less(text, version) if found["rest"] else ""


def _less(text: str, version: str) -> str:
    return f"The document's version {text[:SHOWN]!r} is published as {version}."


def description_of(operation: Operation, said: ToolTerms) -> str:
    """What models are told about an operation: what the operator says, else what the document does, made harmless."""
    if said.description:
        return said.description
    summary, description = harmless(operation.summary, MAX_READ), harmless(operation.description, MAX_READ)
    if summary and summary in description:
        summary = ""
    elif description and description in summary:
        description = ""
    text = "\n\n".join(part for part in (summary, description) if part) or operation.place
    return cut(f"Deprecated. {text}" if operation.is_deprecated else text, MAX_DESCRIPTION)
