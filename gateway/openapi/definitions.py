"""Schemas that others refer to, each of which becomes a definition, and what converting a schema asks of them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, TypeAlias

from gateway.model import Json, JsonObject

# `patch` is a JSON merge patch (RFC 7396) of what `input` describes. `exact` is for conditions: a schema is made less
# strict elsewhere, and what it must not be would become stricter by that.
Direction = Literal["input", "output", "patch", "exact"]

NO_MEMBERS: frozenset[str] = frozenset()


class Key(NamedTuple):
    """A definition: where its schema stands in the document, for which direction, and without which members."""

    reference: str
    direction: Direction
    without: frozenset[str] = NO_MEMBERS


Needed: TypeAlias = dict[str, Key]  # the definitions that a converted schema refers to, by their names


class Definitions(Protocol):
    """The schemas of one document. `ref_alone`: what stands beside a `$ref` counts for nothing."""

    ref_alone: bool

    def warn(self, text: str) -> None:
        """Notes what was adapted, once."""
        ...

    def pattern(self, pattern: str) -> str | None:
        """A regular expression as it can be compiled; None if it cannot."""
        ...

    def refer(self, key: Key, needed: Needed) -> str:
        """The reference to a definition, which is needed then."""
        ...

    def known(self, reference: str) -> str:
        """A reference as a JSON Pointer to something; it may name an anchor that stands once. Raises OperationError."""
        ...

    def resolve(self, schema: Json) -> JsonObject:
        """The object that a node of the document is, or that it refers to. Raises OperationError."""
        ...

    def parts(self, schema: JsonObject, *keywords: str) -> Iterator[JsonObject]:
        """A schema and those that look at the same value by these keywords, or by references that lead somewhere."""
        ...

    def marked(self, schema: JsonObject, mark: str) -> frozenset[str]:
        """The members of an object that have a mark such as `readOnly`, wherever the object is described."""
        ...

    def mentioned(self, reference: str, names: frozenset[str], mark: str) -> frozenset[str]:
        """Those of the names that the target has as members, or requires, and does not mark itself."""
        ...
