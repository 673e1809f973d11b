"""What the operator says about a document: which operations become tools, what is changed about them, their names."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from gateway.core.did_you_mean import suggestion
from gateway.core.model import Json
from gateway.core.tool_names import DEFAULT_VERSION, DIGEST_LENGTH, full_version, word
from gateway.protocols.common.listing import Bounds
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.serialise import PLACEHOLDER
from gateway.protocols.openapi.document.texts import MAX_READ, cut, harmless

ALL = "ALL"  # methods, but for those that double a GET of the same path
DOUBLES = frozenset({"HEAD", "OPTIONS"})
NEVER = frozenset({"TRACE", "CONNECT"})
MAX_SUGGESTED = 5000  # words to look for a similar one in: 10 ms
MAX_WORD = 128  # characters of a tool's name without its toolkit
MAX_DESCRIPTION = 1024  # characters; the tool interfaces of common models cut off there
VERSION = re.compile(r"[vV]?(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9}){0,2})(?P<rest>(?:[-+. _].*)?)", re.DOTALL)
DATE = re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?P<rest>(?:[-+. _T].*)?)", re.DOTALL)
SHOWN = 40  # characters of a version in a warning


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Operations to which all of it applies; None applies to any."""

    operation: str | None = None  # a glob of operationIds
    tag: str | None = None
    path: str | None = None  # a glob of paths as the document writes them
    method: str | None = None  # in capitals
    deprecated: bool | None = None


class ToolTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about one operation."""

    name: str | None = None  # of the tool
    description: str | None = None
    arguments: Mapping[str, Json] = {}  # fixed values, by argument or by JSON Pointer (`/body/...`)
    hide: tuple[str, ...] = ()  # arguments, or JSON Pointers
    rename: Mapping[str, str] = {}  # the callers' names of arguments, by those that these would have
    success: str | None = None  # a condition in JMESPath
    select: str | None = None
    response_headers: tuple[str, ...] = ()
    media_type: str | None = None  # of the body
    encoded_slashes: tuple[str, ...] = ()  # arguments in the path that may hold `/`
    unsafe: bool = False  # a GET that acts


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about a document, and what reading it takes from the other settings of its backend."""

    bounds: Bounds
    url: str  # the backend's own, the only place calls go
    base_path: str | None = None
    folder: str = ""  # of a document from a file that may refer to other files in it; empty: it may not
    version: str = ""  # of the tools; empty: that of the document
    methods: tuple[str, ...] = ("GET", "QUERY")  # that become tools, in capitals; ALL: all but HEAD and OPTIONS
    include: tuple[Match, ...] = ()
    exclude: tuple[Match, ...] = ()
    include_deprecated: bool = False
    max_operations: int = 200
    arguments: Mapping[str, Json] = {}  # fixed values in every operation that has these arguments
    tools: Mapping[str, ToolTerms] = {}  # by operationId or by `METHOD /path`
    server_variables: Mapping[str, str] = {}
    output_schemas: Literal["full", "capped", "none"] = "capped"
    deep_arrays: Literal["auto", "repeat", "brackets", "indexes"] = "auto"
    max_binary_bytes: int = 1024 * 1024
    success: str = ""  # of all operations that do not say it themselves
    key_header: str = ""  # of the idempotency key; empty: none is sent
    key_quoted: bool = True
    # The kind of credential that the backend has of its own. Bearer tokens are of one kind, wherever they come from.
    auth: Literal["", "bearer", "basic", "api_key", "header", "schemes"] = ""
    auth_header: str = ""  # the header that `auth` sets, in lower case; no argument may set it
    auth_in: Literal["", "header", "query", "cookie"] = ""  # where an API key goes; empty: the document says
    auth_name: str = ""  # of the header, parameter or cookie with that key
    schemes: tuple[str, ...] = ()  # security schemes for which the backend has a credential each
    lent_tokens: Mapping[str, str] = {}  # ids of providers, by the security schemes for which callers lend a token
    lent_secrets: Mapping[str, str] = {}  # ids of secrets, likewise


NOTHING_SAID = ToolTerms()


# Which operations become tools.


def reason_left_out(operation: Operation, terms: Terms) -> str | None:
    """Why an operation is left out, in a sentence for the operator; None if it becomes a tool."""
    method = operation.method.upper()
    if method in NEVER:
        return f"{method} never becomes a tool."
    if not operation.is_offered:
        return "The document has 'x-mcp: false' for it."
    if method not in terms.methods and (ALL not in terms.methods or method in DOUBLES):
        return f"operations.methods leaves out {method}."
    if terms.include and not any(matches(operation, match) for match in terms.include):
        return "operations.include does not name it."
    for number, match in enumerate(terms.exclude):
        if matches(operation, match):
            return f"operations.exclude[{number}] names it."
    if operation.is_deprecated and not terms.include_deprecated:
        return "It is deprecated."
    return None


def matches(operation: Operation, match: Match) -> bool:
    """Whether all that a match says holds of an operation."""
    return (
        (not match.method or match.method == operation.method.upper())
        and (match.deprecated is None or match.deprecated is operation.is_deprecated)
        and (not match.tag or match.tag in operation.tags)
        and (not match.operation or _fits(operation.id, match.operation))
        and (not match.path or _fits(operation.template, match.path))
    )


def _fits(text: str, glob: str) -> bool:
    """Whether a text fits a pattern; `*` and `?` stand for anything, also for slashes, and all else for itself."""
    return bool(text) and fnmatchcase(text, glob.replace("[", "[[]"))


def tool_terms(operation: Operation, terms: Terms) -> ToolTerms:
    """What is said about an operation; by its place if both that and its operationId are named."""
    return terms.tools.get(operation.place) or terms.tools.get(operation.id) or NOTHING_SAID


def unknown_tools(operations: Iterable[Operation], terms: Terms) -> Iterator[str]:
    """Finds what is said about operations that the document does not have."""
    if not terms.tools:
        return
    keys = {key for operation in operations for key in (operation.place, operation.id) if key}
    for key in terms.tools:
        if key not in keys:
            hint = suggestion(key, keys) if len(keys) <= MAX_SUGGESTED else ""
            yield f"tools names {key!r}, which is no operation of the document{hint}"


def idle_tools(operations: Sequence[Operation], terms: Terms) -> Iterator[str]:
    """Finds what is said about operations to no avail."""
    by_id = Counter(operation.id for operation in operations if operation.id in terms.tools)
    for key, count in by_id.items():
        if count > 1 and terms.tools[key].name:
            yield f"tools gives {key!r} a name, but {count} operations have this operationId; use method and path"
    for operation in operations:
        key = operation.place if operation.place in terms.tools else operation.id
        if key in terms.tools and (reason := reason_left_out(operation, terms)):
            yield f"tools names {key!r}, which is left out: {reason}"


# What they are called.


class NameSource(IntEnum):
    """What a name is made of; each where the one before is not the only one of its kind."""

    GIVEN, ID, PLACE, DIGEST = range(4)


def tool_names(operations: Iterable[Operation], terms: Terms) -> dict[str, str]:
    """Names all operations of a document, chosen or not, by their places; names that the operator gives stand.

    Where several operations would have one name, all of them are called by method and path, and with a digest of these
    if that is not enough. So no name depends on the order of operations, nor on others unless they have the same.
    """
    by_place = {operation.place: operation for operation in operations}
    sources = {
        place: NameSource.GIVEN if tool_terms(operation, terms).name else NameSource.ID
        for place, operation in by_place.items()
    }
    names = {place: _name(operation, sources[place], terms) for place, operation in by_place.items()}
    while shared := _shared(names, sources):
        for place in shared:
            sources[place] = NameSource(sources[place] + 1)
            names[place] = _name(by_place[place], sources[place], terms)
    return names


def _shared(names: Mapping[str, str], sources: Mapping[str, NameSource]) -> list[str]:
    """The places of operations that need another name: all that share one, but for the only one it is given to."""
    places = defaultdict[str, list[str]](list)
    for place, name in names.items():
        places[name.lower()].append(place)
    renamed: list[str] = []
    for several in places.values():
        if len(several) > 1:
            by_operator = [place for place in several if sources[place] == NameSource.GIVEN]
            renamed += several if len(by_operator) != 1 else [place for place in several if place != by_operator[0]]
    return [place for place in renamed if sources[place] < NameSource.DIGEST]


def _name(operation: Operation, source: NameSource, terms: Terms) -> str:
    match source:
        case NameSource.GIVEN:
            return tool_terms(operation, terms).name or ""
        case NameSource.ID:
            return _by_id(operation) or _by_place(operation)
        case NameSource.PLACE:
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
        return version, _version_note(text, version) if date["rest"] else ""
    match = VERSION.fullmatch(text)
    if match is None:
        return DEFAULT_VERSION, f"The document's version {text[:SHOWN]!r} is no number; {DEFAULT_VERSION} stands in."
    version = full_version(match["numbers"])
    return version, _version_note(text, version) if match["rest"] else ""


def _version_note(text: str, version: str) -> str:
    return f"The document's version {text[:SHOWN]!r} is published as {version}."


def description_of(operation: Operation, tool_terms: ToolTerms) -> str:
    """What models are told about an operation: what the operator says, else what the document does, made harmless."""
    if tool_terms.description:
        return tool_terms.description
    summary, description = harmless(operation.summary, MAX_READ), harmless(operation.description, MAX_READ)
    if summary and summary in description:
        summary = ""
    elif description and description in summary:
        description = ""
    text = "\n\n".join(part for part in (summary, description) if part) or operation.place
    return cut(f"Deprecated. {text}" if operation.is_deprecated else text, MAX_DESCRIPTION)
