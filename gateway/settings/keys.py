"""Declares the keys of a section: each once, with its kind, its default and what it is for.

The reader, the JSON Schema and the reference table all walk these declarations, so that none of them can
disagree with another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform, overload

from gateway.settings import yamlnode
from gateway.settings.kinds import Kind
from gateway.settings.reading import Reading
from gateway.settings.substitution import Substitution

T = TypeVar("T")
DECLARATION = "toolgate.key"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: `field` is the attribute it fills, `default` how the default would be written in a file."""

    name: str
    field: str
    kind: Kind[Any]
    doc: str
    default: Any
    required: bool


@overload
def key(kind: Kind[T], doc: str) -> T: ...
@overload
def key(kind: Kind[T], doc: str, *, default: None) -> T | None: ...
@overload
def key(kind: Kind[T], doc: str, *, default: object) -> T: ...
def key(kind: Kind[Any], doc: str, **options: Any) -> Any:
    """Declares a key of a section. `default` is spelled as in a file; without one the key must be written."""
    declared = {DECLARATION: (kind, doc, options)}
    if "default" not in options:
        return dataclasses.field(metadata=declared)
    value = _read_default(kind, options["default"])
    return dataclasses.field(default_factory=lambda: value, metadata=declared)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key,))
def settings(cls: type[T]) -> type[T]:
    """Makes a class of keys a frozen dataclass with slots and keyword arguments."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def keys_of(cls: type[Any]) -> Mapping[str, Key]:
    """The keys of a section by name, in the order they are declared."""
    found = {}
    for field in dataclasses.fields(cls):
        kind, doc, options = field.metadata[DECLARATION]
        name = field.name.removesuffix(kind.unit)
        found[name] = Key(name, field.name, kind, doc, options.get("default"), not options)
    return found


def _read_default(kind: Kind[T], default: Any) -> T | None:
    """Puts a default through the reader of its own kind: it must be something a file could say, too."""
    if default is None:
        return None
    reading = Reading(yamlnode.literal(default), Substitution({}, Path()))
    return kind.read(reading.cursor())
