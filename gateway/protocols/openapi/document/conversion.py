"""How one schema of a document becomes JSON Schema 2020-12, keyword by keyword (OpenAPI 3.0.4, Schema Object).

What 3.0 says in its own way is understood in documents of 3.1 too, where it means nothing: their authors mean it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.plan import OperationError, UnresolvedError
from gateway.protocols.openapi.document.schemas import (
    NO_MEMBERS,
    DefinitionKey,
    Direction,
    DocumentSchemas,
    Needed,
    check_dialect,
    is_reference,
    texts_of,
)
from gateway.protocols.openapi.document.texts import harmless

MAX_DEFINITIONS = 2_000  # of one tool
SHOWN = 40  # characters of a document in a message

_TOO_DEEP = "One of its schemas is nested too deeply."

_MARKS: dict[Direction, str] = {"input": "readOnly", "patch": "readOnly", "output": "writeOnly", "exact": ""}
ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "examples"})
COUNTED = ("Length", "Items", "Contains", "Properties")
TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
NULL: JsonObject = {"type": "null"}
INT_OR_STRING = "int-or-string"  # of Kubernetes, whose documents of Swagger 2.0 call a port's number or name a string
_BESIDE_REF = ANNOTATIONS | {"$ref", "nullable", "x-nullable"}  # what documents of 3.0 mean to say beside a reference


class _SchemaUnderWay(NamedTuple):
    """A schema that is converted, what has become of it, and members of its object that schemas around it exclude."""

    schema: JsonObject
    result: JsonObject
    without: frozenset[str]


class Conversion:
    """The conversion of a schema with all that stands inside it. Adds to `needed` the definitions it refers to."""

    def __init__(self, schemas: DocumentSchemas, direction: Direction, needed: Needed) -> None:
        self._schemas = schemas
        self._direction: Direction = direction
        self._needed = needed
        self._mark = _MARKS[direction]

    def schema(self, schema: Json, without: frozenset[str] = NO_MEMBERS) -> Json:
        """A schema, `without` some members of its object. Raises OperationError."""
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else {}
        schema = self._effective(schema)
        if self._mark:
            without |= self._schemas.marked(schema, self._mark)
        here = _SchemaUnderWay(schema, {}, without)
        for keyword, value in schema.items():
            if (is_taken := PLAIN.get(keyword)) is not None:
                if is_taken(value):
                    here.result[keyword] = value
                elif value:
                    self._left_out(keyword, value)
            elif (convert := _CONVERSIONS.get(keyword)) is not None:
                convert(self, here, keyword, value)
        self._require(here)
        if schema.get("nullable") is True or schema.get("x-nullable") is True:
            return or_null(here.result)
        return here.result

    def _effective(self, schema: JsonObject) -> JsonObject:
        """A schema without what does not count beside a `$ref`, and with the members that a `$ref` may stand for."""
        if self._schemas.ref_alone and isinstance(schema.get("$ref"), str):
            schema = {key: value for key, value in schema.items() if key in _BESIDE_REF}
        if is_reference(schema.get("properties")):
            schema = {**schema, "properties": self._schemas.resolve(schema["properties"])}
        return schema

    # Each of these converts one keyword.

    def _text(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, str) and (text := harmless(value)):
            here.result[keyword] = text

    def _type(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        try:
            types = types_of(value)
        except ValueError:
            self._left_out(keyword, value)
        else:
            if types == "string" and here.schema.get("format") == INT_OR_STRING:
                types = ["integer", "string"]
            if types is not None:
                here.result[keyword] = types

    def _enum(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, list) and value:
            here.result[keyword] = options_of(value, here.schema.get("type"))

    def _bound(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        """`minimum` or `maximum`, which another keyword makes exclusive in 3.0."""
        exclusive = f"exclusive{keyword.capitalize()}"
        if not is_number(value):
            self._left_out(keyword, value)
        elif here.schema.get(exclusive) is not True:
            here.result[keyword] = value
        else:
            here.result[exclusive] = value

    def _exclusive(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if is_number(value):
            here.result[keyword] = value
        elif not isinstance(value, bool):
            self._left_out(keyword, value)

    def _pattern(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, str) and (pattern := self._schemas.pattern(value)) is not None:
            here.result[keyword] = pattern

    def _reference(self, here: _SchemaUnderWay, _: str, value: Json) -> None:
        if not isinstance(value, str):
            return
        reference = self._schemas.existing_pointer(value)
        without = here.without and self._schemas.mentioned(reference, here.without, self._mark)
        target = self._schemas.refer(DefinitionKey(reference, self._direction, without), self._needed)
        if "$ref" in here.result:
            here.result.setdefault("allOf", []).append({"$ref": target})
        else:
            here.result["$ref"] = target

    def _one(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict | bool):
            here.result[keyword] = self.schema(value)

    def _branch(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict | bool):
            here.result[keyword] = self.schema(value, here.without)

    def _condition(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict | bool):
            here.result[keyword] = self._as("exact").schema(value)

    def _others(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        """Which further members there may be. Servers answer with more than they say, so answers may have any."""
        if isinstance(value, dict | bool) and not (value is False and self._direction == "output"):
            here.result[keyword] = self._optional(value)

    def _items(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        items = self._as("input") if self._direction == "patch" else self  # a patch replaces arrays as a whole
        if isinstance(value, dict | bool):
            here.result[keyword] = items._or_anything(value)
        elif isinstance(value, list) and value:
            converted = [items._or_anything(inner) for inner in value]
            others = here.schema.get("additionalItems")
            here.result["prefixItems"] = converted
            if isinstance(others, dict | bool):
                here.result["items"] = items._or_anything(others)

    def _all_of(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if not isinstance(value, list):
            return
        converted = [self.schema(branch, here.without) for branch in value]
        branches = [branch for branch in converted if branch not in (True, {})]
        is_alone = len(branches) == 1 and "$ref" not in here.schema
        if is_alone and isinstance(branches[0], dict) and branches[0].keys() == {"$ref"}:
            here.result["$ref"] = branches[0]["$ref"]
        elif branches:
            here.result.setdefault(keyword, []).extend(branches)

    def _any_of(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        """Makes `oneOf` an `anyOf` too: that a value fits two branches is no reason to refuse it.

        Branches become wider in both directions, so that more values fit two.
        """
        if not isinstance(value, list) or not value:
            return
        value, converted = self._branches(value, here.without)
        if self._direction == "exact":
            here.result[keyword] = converted
            return
        branches = [
            self._with_discriminator(here, branch, inner) for branch, inner in zip(value, converted, strict=True)
        ]
        if "anyOf" in here.result:
            here.result.setdefault("allOf", []).append({"anyOf": branches})
        else:
            here.result["anyOf"] = branches

    def _with_discriminator(self, here: _SchemaUnderWay, branch: Json, converted: Json) -> Json:
        """A branch that tells the value of the member that tells branches apart, if its schema does not say it."""
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        if not isinstance(reference, str) or not isinstance(converted, dict):
            return converted
        parts = list(self._schemas.parts(branch, "allOf"))
        discriminators = (
            part["discriminator"] for part in (here.schema, *parts) if isinstance(part.get("discriminator"), dict)
        )
        discriminator: JsonObject = next(discriminators, {})
        name = discriminator.get("propertyName")
        if not isinstance(name, str):
            return converted
        members = [part["properties"].get(name) for part in parts if isinstance(part.get("properties"), dict)]
        is_said = any(
            isinstance(member, dict) and ("const" in member or len(texts_of(member.get("enum"))) == 1)
            for member in members
        )
        if is_said:
            return converted
        implied = reference.rpartition("/")[2]
        mapping = discriminator.get("mapping")
        mapped = [key for key, to in mapping.items() if to in (reference, implied)] if isinstance(mapping, dict) else []
        values = " or ".join(f'"{value}"' for value in mapped or [implied])
        text = next((part["description"] for part in parts if isinstance(part.get("description"), str)), "")
        return {**converted, "description": harmless(f"{name}: {values}\n\n{text}")}

    def _properties(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict):
            required = texts_of(here.schema.get("required")) if self._direction == "input" else ()
            members: JsonObject = {}
            for name, inner in value.items():
                if name not in here.without:
                    is_required = name in required or (isinstance(inner, dict) and inner.get("required") is True)
                    members[name] = self._member(inner) if is_required else self._optional(inner)
            if members:
                here.result[keyword] = members

    def _by_pattern(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict):
            patterns = {name: self._schemas.pattern(name) for name in value}
            here.result[keyword] = {
                pattern: self._optional(value[name]) for name, pattern in patterns.items() if pattern is not None
            }

    def _dependent_schemas(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict):
            here.result[keyword] = {name: self.schema(inner, here.without) for name, inner in value.items()}

    def _dependent_required(self, here: _SchemaUnderWay, keyword: str, value: Json) -> None:
        if isinstance(value, dict) and self._direction != "patch":
            here.result[keyword] = {
                name: [other for other in texts_of(others) if other not in here.without]
                for name, others in value.items()
                if isinstance(others, list)
            }

    def _dependencies(self, here: _SchemaUnderWay, _: str, value: Json) -> None:
        """What drafts before 2019-09 say with one keyword."""
        if isinstance(value, dict):
            named = {name: inner for name, inner in value.items() if isinstance(inner, list)}
            schemas = {name: inner for name, inner in value.items() if isinstance(inner, dict | bool)}
            self._dependent_required(here, "dependentRequired", named)
            self._dependent_schemas(here, "dependentSchemas", schemas)

    def _dialect(self, _here: _SchemaUnderWay, _: str, value: Json) -> None:
        check_dialect(value)

    # What they share.

    def _require(self, here: _SchemaUnderWay) -> None:
        """Adds `required`, which documents of 3.0 also say in the schemas of the members themselves."""
        required, properties = texts_of(here.schema.get("required")), here.schema.get("properties")
        if self._direction == "patch":
            return
        if isinstance(properties, dict):
            for name, inner in properties.items():
                if isinstance(inner, dict) and inner.get("required") is True:
                    required.append(name)
            is_closed = here.schema.get("additionalProperties") is False and "patternProperties" not in here.schema
            if is_closed and self._direction != "exact":
                required = [name for name in required if name in properties]  # others cannot be there
        if required := [name for name in dict.fromkeys(required) if name not in here.without]:
            here.result["required"] = required

    def _member(self, schema: Json) -> Json:
        """The schema of a member, which a patch may set to null."""
        return or_null(self.schema(schema)) if self._direction == "patch" else self.schema(schema)

    def _optional(self, schema: Json) -> Json:
        """The schema of a member that may be left out; anything if it refers to nothing."""
        return or_null(self._or_anything(schema)) if self._direction == "patch" else self._or_anything(schema)

    def _or_anything(self, schema: Json) -> Json:
        try:
            return self.schema(schema)
        except UnresolvedError as exc:
            self._schemas.warn(f"A member that may be left out may be anything: {exc}")
            return {}

    def _branches(self, value: list[Json], without: frozenset[str]) -> tuple[list[Json], list[Json]]:
        """The alternatives that refer to something, as they are and converted. Raises UnresolvedError if none does."""
        usable: list[Json] = []
        converted: list[Json] = []
        wrong: UnresolvedError | None = None
        for branch in value:
            try:
                converted.append(self.schema(branch, without))
                usable.append(branch)
            except UnresolvedError as exc:
                wrong = exc
        if wrong is not None and not usable:
            raise wrong
        if wrong is not None:
            self._schemas.warn(f"An alternative is left out: {wrong}")
        return usable, converted

    def _as(self, direction: Direction) -> Conversion:
        return Conversion(self._schemas, direction, self._needed)

    def _left_out(self, keyword: str, value: Json) -> None:
        self._schemas.warn(f"A schema has the {keyword} {str(value)[:SHOWN]!r}, which there is not; it is left out.")


_METHODS: Sequence[tuple[Callable[[Conversion, _SchemaUnderWay, str, Json], None], str]] = (
    (Conversion._reference, "$ref $dynamicRef"),
    (Conversion._dialect, "$schema"),
    (Conversion._text, "title description"),
    (Conversion._type, "type"),
    (Conversion._enum, "enum"),
    (Conversion._pattern, "pattern"),
    (Conversion._bound, "minimum maximum"),
    (Conversion._exclusive, "exclusiveMinimum exclusiveMaximum"),
    (Conversion._properties, "properties"),
    (Conversion._by_pattern, "patternProperties"),
    (Conversion._dependent_schemas, "dependentSchemas"),
    (Conversion._dependent_required, "dependentRequired"),
    (Conversion._dependencies, "dependencies"),
    (Conversion._others, "additionalProperties unevaluatedProperties"),
    (Conversion._one, "propertyNames unevaluatedItems"),
    (Conversion._branch, "then else"),
    (Conversion._condition, "not if contains"),
    (Conversion._items, "items prefixItems"),
    (Conversion._all_of, "allOf"),
    (Conversion._any_of, "anyOf oneOf"),
)
_CONVERSIONS = {keyword: convert for convert, keywords in _METHODS for keyword in keywords.split()}


class Converter(DocumentSchemas):
    """The schemas of one document, and what they become in JSON Schema."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._definitions: dict[DefinitionKey, tuple[Json, Needed]] = {}

    def convert(self, schema: Json, direction: Direction, needed: Needed) -> JsonObject:
        """A schema of the document in JSON Schema. Adds to `needed` what it refers to. Raises OperationError."""
        if self.dialect is not None:
            check_dialect(self.dialect)
        try:
            converted = Conversion(self, direction, needed).schema(schema)
        except RecursionError as exc:
            raise OperationError(_TOO_DEEP) from exc
        if isinstance(converted, dict):
            return converted
        return {} if converted else {"not": {}}

    def definitions(self, needed: Needed) -> JsonObject:
        """Definitions and all that they refer to, by their names. Raises OperationError."""
        definitions: JsonObject = {}
        waiting = list(needed.items())
        while waiting:
            name, key = waiting.pop()
            if name not in definitions:
                if len(definitions) == MAX_DEFINITIONS:
                    raise OperationError(f"Its schemas refer to more than {MAX_DEFINITIONS} others.")
                definitions[name], leads_to = self._definition(key)
                waiting.extend(leads_to.items())
        return dict(sorted(definitions.items()))

    def _definition(self, key: DefinitionKey) -> tuple[Json, Needed]:
        if key not in self._definitions:
            needed: Needed = {}
            try:
                converted = Conversion(self, key.direction, needed).schema(self.target(key.reference), key.without)
            except RecursionError as exc:
                raise OperationError(_TOO_DEEP) from exc
            self._definitions[key] = converted, needed
        return self._definitions[key]


# Of a schema in which one of these stands, `type` does not decide alone whether it takes null.
_DECIDING = ("$ref", "allOf", "anyOf", "const", "else", "if", "not", "oneOf", "then")


def is_number(value: Json) -> bool:
    """Whether a value is a number, which a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


# Keywords that are taken as they are if their value is one that they may have; other keywords are left out.
PLAIN: dict[str, Callable[[Json], bool]] = {
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("default", "const"), lambda value: True),
    **dict.fromkeys(("deprecated", "uniqueItems"), lambda value: value is True),
    "examples": lambda value: isinstance(value, list),
    "multipleOf": lambda value: is_number(value) and value > 0,
    **dict.fromkeys((f"{bound}{what}" for bound in ("min", "max") for what in COUNTED), _is_count),
}


def types_of(value: Json) -> str | list[str] | None:
    """The `type` of a schema; None: it says nothing. Raises ValueError for one that there is not."""
    if type(value) is str and value in TYPES:
        return value
    if value is None or value == "any":
        return None
    names = ["null" if name is None else name for name in value] if isinstance(value, list) else [value]
    names = list(dict.fromkeys("string" if name == "file" else name for name in names if isinstance(name, str)))
    if not TYPES.issuperset(names):
        raise ValueError
    return names if len(names) > 1 else names[0] if names else None


def options_of(value: list[Json], types: Json) -> list[Json]:
    """The values of an `enum`, each once; numbers among texts are texts that YAML has taken for numbers."""
    if all(type(option) is str for option in value):
        return list(dict.fromkeys(value))
    if types == "string":
        value = [_as_text(option) if isinstance(option, int | float) else option for option in value]
    return list({msgspec.json.encode(option): option for option in value}.values())


def _as_text(value: float) -> str:
    return msgspec.json.encode(value).decode()


def or_null(schema: Json) -> Json:
    """A schema of JSON Schema 2020-12 that takes null too."""
    if not isinstance(schema, dict):
        return schema if schema is True else NULL
    if schema.keys().isdisjoint(_DECIDING):
        result = dict(schema)
        if "type" in schema:
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            result["type"] = types if "null" in types else [*types, "null"]
        if "enum" in schema and None not in schema["enum"]:
            result["enum"] = [*schema["enum"], None]
        return result
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    branches = rest["anyOf"] if rest.keys() == {"anyOf"} else [rest]
    return {**annotations, "anyOf": branches if NULL in branches else [*branches, NULL]}
