"""How values with parts are read: sections of keys, lists, mappings, and one of several sections.

Each is given a `Cursor` and hands on cursors of its parts, so that all problems are recorded where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from gateway.configfile.cursor import Cursor, RefusedValueError
from gateway.configfile.values import SUBSTITUTED, Schema, Text, WordOf
from gateway.core.did_you_mean import suggestion

Check = Callable[[Sequence[Any]], Iterable[tuple[int, str]]]
Validate = Callable[[Any], Any]
T = TypeVar("T")


def key_of(field: str) -> str:
    """The key in a file of an attribute, which has its unit besides: `head_timeout_s`, `head_timeout`."""
    return field.removesuffix("_s").removesuffix("_bytes")


def setting(default: Any, description: str, *, alias: str | None = None) -> Any:
    """Declares a key of a section: its default as a file would write it (`...`: there is none), and what it is for."""
    return Field(default, description=description, alias=alias)


class Section(BaseModel):
    """A mapping whose keys are the fields of the class. Defaults are written as in a file."""

    model_config = ConfigDict(
        alias_generator=key_of,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,  # it may be a secret
        defer_build=True,  # a worker gets its settings ready-made and reads no file
    )
    replaced: ClassVar[Mapping[str, str]] = {}  # keys of earlier versions, with what to say about each
    advice: ClassVar[Mapping[str, str]] = {}  # what to write for required keys that are missing

    def problems(self) -> Iterable[tuple[str, str]]:
        """Finds values that do not go together: the name of a field (or ''), and what is wrong with it.

        A name with dots leads to a field of a section in this one.
        """
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Cursor):
            return handler(value)
        entries = value.entries()
        keys = {name: field.alias or key_of(name) for name, field in cls.model_fields.items()}
        _refuse_unknown(value, entries, keys.values(), cls.replaced)
        values = {}
        for name, field in cls.model_fields.items():
            key = keys[name]
            entry = entries.get(key)
            if entry is not None and not (entry.is_null and field.default is None):
                values[key] = entry
            elif entry is None and field.is_required():
                value.refuse_missing(key, cls.advice.get(key, ""))
        section = handler(values)
        for name, message in section.problems():
            first, *below = name.split(".")
            at = _place(value, [keys.get(first, ""), *map(key_of, below)])
            if not at.is_stand_in:  # the value it will have may go with the others
                at.refuse_key(message)
        return section


def _place(cursor: Cursor, keys: Sequence[str]) -> Cursor:
    """The value that keys lead to, one below the other, or the last one on the way that is written."""
    for key in keys:
        below = cursor.entries().get(key)
        if below is None:
            break
        cursor = below
    return cursor


def find_repeats(items: Sequence[Any], key: Callable[[Any], object] = lambda item: item) -> Iterator[tuple[int, int]]:
    """Finds items of a list that have the key of an earlier one: the index of each, and of the first of its key."""
    first: dict[object, int] = {}
    for index, item in enumerate(items):
        if item is not None and (at := first.setdefault(key(item), index)) != index:
            yield index, at


def repeats(items: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Finds items of a list that stand there before."""
    return ((index, "is in the list already") for index, _ in find_repeats(items))


class CompositeValue:
    """An annotation of a value with parts, each read by itself, so that a wrong one hides nothing wrong in others."""

    def read(self, value: Any, validate: Validate) -> Any:
        """Reads a value of a file or of code. Raises RefusedValueError."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self.read, handler(source))


class Items(CompositeValue):
    """A list, as `Annotated[tuple[T, ...], Items()]`. `check` finds items that do not go with the others.

    It sees None for an item that is wrong itself, or not known.
    """

    def __init__(self, check: Check = repeats, *, at_least: int = 0) -> None:
        self.check = check
        self.at_least = at_least

    def read(self, value: Any, validate: Validate) -> tuple[Any, ...]:
        if not isinstance(value, Cursor):
            return tuple(validate(value))
        cursors = value.items()
        if len(cursors) < self.at_least:
            raise value.refuse(f"must have at least {self.at_least} item{'s' if self.at_least > 1 else ''}")
        values = [_first(validate, [cursor]) for cursor in cursors]
        judged = [None if cursor.is_stand_in else item for cursor, item in zip(cursors, values, strict=True)]
        for index, message in self.check(judged):
            cursors[index].refuse(message)
        if any(cursor.is_stand_in for cursor in cursors):
            value.context.stand_ins.add(value.path)
        if None in values:
            raise RefusedValueError
        return tuple(values)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return handler(schema) | ({"minItems": self.at_least} if self.at_least else {})


ListOf = Annotated[tuple[T, ...], Items()]


class OneOrMore(Items):
    """A list with at least one item, or such an item by itself, as `Annotated[tuple[T, ...], OneOrMore()]`."""

    def __init__(self) -> None:
        super().__init__(at_least=1)

    def read(self, value: Any, validate: Validate) -> tuple[Any, ...]:
        if not isinstance(value, Cursor):
            return tuple(validate([value] if isinstance(value, str) else value))
        if value.raw is None:
            return super().read(value, validate)
        if (item := _first(validate, [value])) is None:
            raise RefusedValueError
        return (item,)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        items = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [items["items"], items]}


SomeOf = Annotated[tuple[T, ...], OneOrMore()]


class ByName(CompositeValue):
    """Values under names that the operator chooses, as `Annotated[Mapping[str, T], ByName(NAME)]`.

    `check` finds those that do not go with the others, by their names.
    """

    def __init__(
        self, name: Text, check: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    ) -> None:
        self.name = name
        self.check = check

    def read(self, value: Any, validate: Validate) -> Mapping[str, Any]:
        if not isinstance(value, Cursor):
            return MappingProxyType(validate(value))
        entries = value.entries()
        values = {}
        for name, entry in entries.items():
            if entry.is_empty:
                value.context.record(entry.key_mark, value.path, "has a name without a value")
            elif not self.name.matches(name):
                entry.refuse_key(f"as a name {self.name.must}")
            elif (item := _first(validate, {name: entry}, name)) is not None:
                values[name] = item
        for name, message in self.check(values) if self.check else ():
            entries[name].refuse_key(message)
        if len(values) < len(entries):
            raise RefusedValueError
        return MappingProxyType(values)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        dumped = core_schema.wrap_serializer_function_ser_schema(lambda values, dump: dump(dict(values)), schema=schema)
        return core_schema.no_info_wrap_validator_function(self.read, schema, serialization=dumped)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return handler(schema) | {"propertyNames": {"pattern": f"^({self.name.pattern})$"}}


class ByOnlyKey:
    """One of several sections that have a single key each, as `Annotated[A | B, ByOnlyKey()]`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        classes: Sequence[type[Section]] = get_args(source) or (source,)
        sections = {next(iter(section.model_fields)): section for section in classes}

        def only_key(cursor: Cursor) -> str:
            entries = cursor.entries()
            present = [key for key in sections if key in entries]
            if len(present) != 1:
                _refuse_unknown(cursor, entries, sections, {})
                raise cursor.refuse(f"must have exactly one of the keys {', '.join(sections)}")
            return present[0]

        return _one_of(sections, only_key, handler)


class ByWord:
    """One of several sections, chosen by the word under a key that all of them have."""

    def __init__(self, key: str, sections: Mapping[str, type[Section]]) -> None:
        self.key = key
        self.sections = sections
        self.words = WordOf(tuple(sections))

    def _word(self, cursor: Cursor) -> str:
        entries = cursor.entries()
        if self.key not in entries:
            raise cursor.refuse_missing(self.key)
        return str(self.words.read(entries[self.key]))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _one_of(self.sections, self._word, handler)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        # Not `oneOf`: with `if` an editor complains about the keys of the section that was meant.
        sections = zip(self.sections, handler(schema)["oneOf"], strict=True)
        return {
            "type": "object",
            "required": [self.key],
            "properties": {self.key: self.words.schema()},
            "allOf": [
                {"if": {"required": [self.key], "properties": {self.key: {"const": word}}}, "then": section}
                for word, section in sections
            ],
        }


class OrWord(CompositeValue):
    """A section, or one word that says there is none, as `Annotated[T | None, OrWord("none")]`."""

    def __init__(self, word: str) -> None:
        self.word = word

    def read(self, value: Any, validate: Validate) -> Any:
        if not isinstance(value, Cursor) or value.raw is None or value.is_null or value.is_empty:
            return validate(value)
        scalar = value.scalar()
        if scalar.text != self.word and not scalar.missing:
            raise value.refuse(f"must be the word {self.word!r} or a mapping of keys to values")
        return None

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        section, _null = handler(schema)["anyOf"]
        return {"anyOf": [{"const": self.word}, {"type": "string", "pattern": SUBSTITUTED}, section]}


def _one_of(
    sections: Mapping[str, type[Section]], name_of: Callable[[Cursor], str], handler: GetCoreSchemaHandler
) -> CoreSchema:
    """What pydantic reads one of several sections with; `name_of` chooses, or raises RefusedValueError."""

    def choose(value: Any) -> str | None:
        if not isinstance(value, Cursor):
            return next((name for name, section in sections.items() if isinstance(value, section)), None)
        try:
            return name_of(value)
        except RefusedValueError:
            return None

    choices = {name: handler.generate_schema(section) for name, section in sections.items()}
    return core_schema.tagged_union_schema(choices, choose)


def _first(validate: Validate, one: Any, key: Any = 0) -> Any:
    """The only part of what is validated; None if it was refused."""
    try:
        return validate(one)[key]
    except ValidationError:
        return None


def _refuse_unknown(
    cursor: Cursor, entries: Mapping[str, Cursor], keys: Iterable[str], replaced: Mapping[str, str]
) -> None:
    for name, entry in entries.items():
        if name in keys:
            continue
        hint = suggestion(name, keys)
        if name in replaced:
            entry.refuse_key(replaced[name])
        elif entry.is_empty:  # its name is not shown: `{hunter2}` is a key to YAML, but was meant as a password
            message = f"has a key that is not known and has no value{hint}"
            cursor.context.record(entry.key_mark, cursor.path, message)
        else:
            entry.refuse_key(f"is not a known key{hint}")
