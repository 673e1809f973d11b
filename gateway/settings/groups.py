"""What a value with parts may be: lists, mappings, sections of keys, and one of several sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

from gateway.settings.keys import Key, keys_of
from gateway.settings.kinds import Choice, Kind, Schema, Text, or_substituted
from gateway.settings.reading import Cursor, RefusedError
from gateway.suggestions import suggestion

T = TypeVar("T")
Check = Callable[[Sequence[Any]], Iterable[tuple[int, str]]]
NONE: Mapping[str, str] = MappingProxyType({})


def repeats(items: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Finds items of a list that stand there before."""
    seen = set()
    for index, item in enumerate(items):
        if item is not None and item in seen:
            yield index, "is in the list already"
        seen.add(item)


class ListOf(Kind[tuple[T, ...]]):
    """A list. `check` names items that do not go with the others.

    It sees None for an item that is wrong itself, or not known.
    """

    def __init__(self, item: Kind[T], *, at_least: int = 0, check: Check = repeats) -> None:
        self.item = item
        self.at_least = at_least
        self.check = check

    def read(self, cursor: Cursor) -> tuple[T, ...]:
        cursors = cursor.items()
        if len(cursors) < self.at_least:
            raise cursor.refuse(f"must have at least {self.at_least} item{'s' if self.at_least > 1 else ''}")
        values: list[T | None] = []
        for item in cursors:
            values.append(None)
            with suppress(RefusedError):
                values[-1] = self.item.read(item)
        known = [None if item.is_made_up else value for item, value in zip(cursors, values, strict=True)]
        for index, message in self.check(known):
            cursors[index].refuse(message)
        if any(item.is_made_up for item in cursors):
            cursor.reading.made_up.add(cursor.path)
        if None in values:
            raise RefusedError
        return tuple(value for value in values if value is not None)

    def schema(self, defs: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": "array", "items": self.item.schema(defs)}
        return {**schema, "minItems": self.at_least} if self.at_least else schema


class MapOf(Kind[Mapping[str, T]]):
    """Values under names that the operator chooses."""

    def __init__(self, value: Kind[T], name: Text) -> None:
        self.value = value
        self.name = name

    def read(self, cursor: Cursor) -> Mapping[str, T]:
        entries = cursor.entries()
        values: dict[str, T] = {}
        for name, entry in entries.items():
            if entry.is_empty:
                _refuse_valueless(cursor, entry, "has a name without a value")
            elif not self.name.admits(name):
                entry.refuse_key(f"as a name {self.name.must}")
            else:
                with suppress(RefusedError):
                    values[name] = self.value.read(entry)
        if len(values) < len(entries):
            raise RefusedError
        return MappingProxyType(values)

    def schema(self, defs: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.value.schema(defs)}
        return {**schema, "propertyNames": {"pattern": f"^({self.name.pattern})$"}} if self.name.pattern else schema


class Section(Kind[T]):
    """The keys a class declares.

    The class may have `problems(written)`: keys that do not go together; and `replaced`: keys of earlier versions, with
    what is to be said of each.
    """

    def __init__(self, cls: type[T]) -> None:
        self.cls = cls
        self.keys = keys_of(cls)

    def read(self, cursor: Cursor) -> T:
        return self.fill(cursor, cursor.entries())

    def fill(self, cursor: Cursor, entries: Mapping[str, Cursor]) -> T:
        """Reads the entries under the cursor; unknown keys are recorded, but do not spoil the section."""
        _refuse_unknown(cursor, entries, self.keys, getattr(self.cls, "replaced", {}))
        values: dict[str, Any] = {}
        complete = True
        for key in self.keys.values():
            try:
                _read_key(cursor, entries, key, values)
            except RefusedError:
                complete = False
        if not complete:
            raise RefusedError
        section = self.cls(**values)
        for name, message in getattr(section, "problems", _no_problems)(entries.keys()):
            at = entries.get(name, cursor)
            if not at.is_made_up:  # what it will be may go with the others
                at.refuse_key(message)
        return section

    def schema(self, defs: dict[str, Schema]) -> Schema:
        name = self.cls.__name__.removesuffix("Settings")
        if name not in defs:
            defs[name] = {
                "description": " ".join((self.cls.__doc__ or "").split()),
                "type": "object",
                "additionalProperties": False,
                "required": [key.name for key in self.keys.values() if key.required],
                "properties": {key.name: _key_schema(key, defs) for key in self.keys.values()},
            }
        return {"$ref": f"#/$defs/{name}"}


class OneOf(Kind[T]):
    """One of several sections, each known by the one key it has."""

    def __init__(self, *classes: type[T]) -> None:
        self.sections = {next(iter(keys_of(cls))): Section(cls) for cls in classes}

    def read(self, cursor: Cursor) -> T:
        entries = cursor.entries()
        present = [name for name in self.sections if name in entries]
        if len(present) == 1:
            return self.sections[present[0]].fill(cursor, entries)
        _refuse_unknown(cursor, entries, self.sections)
        raise cursor.refuse(f"must have exactly one of the keys {', '.join(self.sections)}")

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"oneOf": [section.schema(defs) for section in self.sections.values()]}


class Tagged(Kind[T]):
    """One of several sections, chosen by a word under a key they all have."""

    def __init__(self, tag: str, sections: Mapping[str, type[T]]) -> None:
        self.tag = tag
        self.sections = {word: Section(cls) for word, cls in sections.items()}
        self.words = Choice(*sections)

    def read(self, cursor: Cursor) -> T:
        entries = cursor.entries()
        if self.tag not in entries:
            raise cursor.refuse_missing(self.tag)
        return self.sections[self.words.read(entries[self.tag])].fill(cursor, entries)

    def schema(self, defs: dict[str, Schema]) -> Schema:
        # Not `oneOf`: with `if` an editor complains about the keys of the section that was meant.
        return {
            "type": "object",
            "required": [self.tag],
            "properties": {self.tag: self.words.schema(defs)},
            "allOf": [
                {
                    "if": {"required": [self.tag], "properties": {self.tag: {"const": word}}},
                    "then": section.schema(defs),
                }
                for word, section in self.sections.items()
            ],
        }


class OrWord(Kind[T | None]):
    """A section, or one word that says there is none."""

    def __init__(self, word: str, cls: type[T]) -> None:
        self.word = word
        self.section = Section(cls)

    def read(self, cursor: Cursor) -> T | None:
        if cursor.raw is None or cursor.is_null or cursor.is_empty:
            return self.section.read(cursor)
        written = cursor.scalar()
        if written.text != self.word and not written.missing:
            raise cursor.refuse(f"must be the word {self.word!r} or a mapping of keys to values")
        return None

    def schema(self, defs: dict[str, Schema]) -> Schema:
        word = {"type": "string", "pattern": or_substituted(self.word)}
        return {"anyOf": [word, self.section.schema(defs)]}


def _refuse_unknown(
    cursor: Cursor, entries: Mapping[str, Cursor], known: Mapping[str, Any], replaced: Mapping[str, str] = NONE
) -> None:
    for name, entry in entries.items():
        if name in known:
            continue
        if name in replaced:
            entry.refuse_key(replaced[name])
            continue
        hint = suggestion(name, known)
        if entry.is_empty:
            _refuse_valueless(cursor, entry, f"has a key that is not known and has no value{hint}")
        else:
            entry.refuse_key(f"is not a known key{hint}")


def _refuse_valueless(cursor: Cursor, entry: Cursor, message: str) -> None:
    """Records a problem without showing the key: `{hunter2}` is a key to YAML, a password to whoever wrote it."""
    cursor.reading.record(entry.key_mark, cursor.path, message)


def _read_key(cursor: Cursor, entries: Mapping[str, Cursor], key: Key, values: dict[str, Any]) -> None:
    entry = entries.get(key.name)
    if entry is None:
        if key.required:
            raise cursor.refuse_missing(key.name)
    elif not (entry.is_null and not key.required and key.default is None):
        values[key.field] = key.kind.read(entry)


def _no_problems(_written: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return ()


def _key_schema(key: Key, defs: dict[str, Schema]) -> Schema:
    schema = key.kind.schema(defs)
    if key.required:
        return {"description": key.doc, **schema}
    if key.default is None:
        return {"description": key.doc, "anyOf": [schema, {"type": "null"}], "default": None}
    return {"description": key.doc, **schema, "default": key.default}
