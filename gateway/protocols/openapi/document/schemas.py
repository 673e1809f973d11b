"""The schemas of a document as they stand in it: references, marks of members, regular expressions.

References stay references when schemas are converted, to definitions that are converted once for all tools.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import references
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.plan import OperationError, UnresolvedError
from gateway.schemas import CompiledSchema, SchemaError

# `patch` is a JSON merge patch (RFC 7396) of what `input` describes. `exact` is for conditions: a schema is made less
# strict elsewhere, and what it must not be would become stricter by that.
Direction = Literal["input", "output", "patch", "exact"]

NO_MEMBERS: frozenset[str] = frozenset()


class DefinitionKey(NamedTuple):
    """A definition: where its schema stands in the document, for which direction, and without which members."""

    reference: str
    direction: Direction
    without: frozenset[str] = NO_MEMBERS


Needed: TypeAlias = dict[str, DefinitionKey]  # the definitions that a converted schema refers to, by their names


BEFORE_2019 = re.compile("draft-0[467]")
MAX_IN_PLACE = 1_000  # schemas looked through for the members of one object
MAX_VARIANTS = 100  # definitions without members that schemas around them exclude
SHOWN = 100  # characters of a document in a message

# 2020-12, its form for OpenAPI, and older drafts, which are understood as far as they say the same in another way.
_DIALECTS = re.compile(
    r"https?://(spec\.openapis\.org/oas/3\.[0-9]+/.+|json-schema\.org/draft(-0[467]|/2019-09|/2020-12)/schema)#?"
)
_IN_SLASHES = re.compile(r"/(\^.*\$)/([a-z]*)", re.DOTALL)
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


class DocumentSchemas:
    """The schemas of one document: what its references lead to, and what is said of one value in several places."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.dialect = document.root.get("jsonSchemaDialect")
        # Whether what stands beside a `$ref` counts for nothing.
        self.ref_alone = document.dialect == "3.0" or bool(BEFORE_2019.search(str(self.dialect)))
        self._names: dict[DefinitionKey, str] = {}
        self._variants = 0
        self._marked: dict[tuple[str, str], bool] = {}  # whether what a reference names has a mark
        self._pointers: dict[str, str] = {}
        self._patterns: dict[str, str | None] = {}
        self._anchors: dict[str, set[str]] | None = None

    def resolve(self, schema: Json) -> JsonObject:
        """A schema, or the one that its `$ref` leads to. Raises OperationError."""
        return self.document.resolve({} if isinstance(schema, bool) else schema)

    def warn(self, text: str) -> None:
        """Notes what was adapted, once."""
        self.document.warn(text)

    def pattern(self, pattern: str) -> str | None:
        """A regular expression as it can be compiled; None if it cannot."""
        if pattern not in self._patterns:
            bare = bare_pattern(pattern)
            try:
                if bare is not None:
                    CompiledSchema.compile({"pattern": bare})
            except SchemaError:
                bare = None
            if bare is None:
                self.warn(f"The pattern {pattern[:SHOWN]!r} of a schema cannot be compiled; it is not checked.")
            self._patterns[pattern] = bare
        return self._patterns[pattern]

    def refer(self, key: DefinitionKey, needed: Needed) -> str:
        """The reference to a definition, which is needed then."""
        name = self._names.get(key)
        if name is None:
            if key.without:
                self._variants += 1
            if key.without and self._variants > MAX_VARIANTS:
                return self.refer(key._replace(without=NO_MEMBERS), needed)
            name = self._names[key] = _name(key)
        needed[name] = key
        return f"#/$defs/{name}"

    def pointer(self, reference: str) -> str:
        """A reference as a JSON Pointer; it may name an anchor that stands once in the document.

        Raises OperationError.
        """
        if reference.startswith("#/"):
            return reference
        if reference == "#":
            raise OperationError("It refers to its whole document as a schema.")
        if self._anchors is None:
            self._anchors = _anchors(self.document.root)
        places = self._anchors.get(reference, set())
        if len(places) > 1:
            raise OperationError(f"It refers to {reference[:SHOWN]!r}, the name of several parts of its document.")
        return next(iter(places), reference)

    def existing_pointer(self, reference: str) -> str:
        """A reference as a JSON Pointer to something. Raises OperationError; UnresolvedError if there is nothing."""
        pointer = self._pointers.get(reference)
        if pointer is None:
            pointer = self.pointer(reference)
            self.document.follow({"$ref": pointer})
            self._pointers[reference] = pointer
        return pointer

    def target(self, reference: str) -> Json:
        """What a reference points to. Raises OperationError."""
        return references.target(self.document.root, self.pointer(reference))

    def parts(self, schema: JsonObject, *keywords: str) -> Iterator[JsonObject]:
        """A schema and those that look at the same value by these keywords, or by references that lead somewhere."""
        if "$ref" not in schema and schema.keys().isdisjoint(keywords):
            yield schema
            return
        waiting: list[Json] = [schema]
        seen = set[int]()
        while waiting and len(seen) < MAX_IN_PLACE:
            part = waiting.pop()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            if is_reference(part.get("properties")):
                part = {**part, "properties": self.resolve(part["properties"])}
            yield part
            if isinstance(reference := part.get("$ref"), str):
                with suppress(UnresolvedError):
                    waiting.append(self.target(reference))
            for keyword in keywords:
                if isinstance(branches := part.get(keyword), list):
                    waiting.extend(branches)

    def marked(self, schema: JsonObject, mark: str) -> frozenset[str]:
        """The members of an object that have a mark such as `readOnly`, wherever the object is described."""
        names: set[str] = set()
        is_whole = "$ref" not in schema and "allOf" not in schema  # most are
        for part in (schema,) if is_whole else self.parts(schema, "allOf"):
            properties = part.get("properties")
            if isinstance(properties, dict):
                names.update(name for name, inner in properties.items() if self._is_marked(inner, mark))
        return frozenset(names) if names else NO_MEMBERS

    def mentioned(self, reference: str, names: frozenset[str], mark: str) -> frozenset[str]:
        """Those of the names that the target has as members, or requires, and does not mark itself."""
        target = self.target(reference)
        if not isinstance(target, dict):
            return NO_MEMBERS
        mentioned: set[str] = set()
        for part in self.parts(target, "allOf", "anyOf", "oneOf"):
            for keyword in ("properties", "required"):
                if isinstance(part.get(keyword), dict | list):
                    mentioned.update(name for name in part[keyword] if isinstance(name, str))
        return (names & mentioned) - self.marked(target, mark)

    def _is_marked(self, schema: Json, mark: str) -> bool:
        if not isinstance(schema, dict):
            return False
        reference = schema.get("$ref")
        if schema.get(mark) is True or (reference is None and "allOf" not in schema):
            return schema.get(mark) is True
        if "allOf" in schema or not isinstance(reference, str):
            return any(part.get(mark) is True for part in self.parts(schema, "allOf"))
        if (is_marked := self._marked.get((reference, mark))) is None:
            is_marked = any(part.get(mark) is True for part in self.parts(schema, "allOf"))
            self._marked[reference, mark] = is_marked
        return is_marked


def _name(key: DefinitionKey) -> str:
    """The name of a definition: that of a component, else one with a digest, whatever else the document holds."""
    tokens = references.tokens(key.reference)
    last = _FOREIGN.sub("_", tokens[-1])[:64]
    is_plain = not key.without and key.direction in ("input", "output")
    if is_plain and tokens == ["components", "schemas", last]:
        return last
    identity = "\0".join((*tokens, key.direction, *sorted(key.without)))
    return f"{last}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _anchors(root: JsonObject) -> dict[str, set[str]]:
    """The pointers to all schemas that have names of their own, by what refers to them."""
    places: dict[str, set[str]] = {}
    waiting: list[tuple[Json, str]] = [(root, "#")]
    while waiting:
        node, place = waiting.pop()
        inner = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
        for name, value in inner:
            if name in ("$anchor", "$dynamicAnchor", "$id") and isinstance(value, str):
                places.setdefault(value if name == "$id" else f"#{value}", set()).add(place)
            elif isinstance(value, dict | list):
                waiting.append((value, f"{place}/{references.fragment_name(str(name))}"))
    return places


def is_reference(named: Json) -> bool:
    """Whether an object in which each member has a name of the document's is a reference instead."""
    return isinstance(named, dict) and isinstance(named.get("$ref"), str)


def check_dialect(named: Json) -> None:
    """Raises OperationError for schemas in a dialect that is not existing_pointer."""
    if not isinstance(named, str) or not _DIALECTS.fullmatch(named):
        raise OperationError(f"Its schemas are in the dialect {str(named)[:100]!r}, which is not supported.")


def texts_of(value: Json) -> list[str]:
    """The texts in a list, each once; nothing of what is no list."""
    return list(dict.fromkeys(text for text in value if isinstance(text, str))) if isinstance(value, list) else []


def bare_pattern(pattern: str) -> str | None:
    """A regular expression without the slashes that some documents write around it; None: with flags, it is unusable.

    With them it would match no text at all.
    """
    match = _IN_SLASHES.fullmatch(pattern)
    if match is None:
        return pattern
    return None if match[2] else match[1]
