"""Schemas of OpenAPI documents as JSON Schema 2020-12: what callers may send, and what answers hold.

A schema of a document means two things, because members can be for one direction only. References stay references, to
definitions that are converted once for all tools.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from gateway.model import Json, JsonObject
from gateway.openapi import references
from gateway.openapi.document import Document
from gateway.openapi.keywords import ANNOTATIONS, PLAIN, bare_pattern, is_number, options_of, or_null, types_of
from gateway.openapi.operations import OperationError
from gateway.openapi.texts import cleaned
from gateway.schemas import CompiledSchema, SchemaError

# `patch` is a JSON merge patch (RFC 7396) of what `input` describes. `exact` is what a schema says, unchanged: a
# condition that a value must not fulfil would otherwise be stricter, where its schema is made less strict.
Direction = Literal["input", "output", "patch", "exact"]

BASE_DIALECTS = re.compile(r"https?://(json-schema\.org/draft/2020-12/schema|spec\.openapis\.org/oas/3\.[0-9]+/.+)#?")
OTHER_DIALECTS = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/2019-09)/schema#?")

MAX_IN_PLACE = 1_000  # schemas looked through for members of one object
MAX_VARIANTS = 1_000  # definitions without members that schemas around them exclude
MAX_WARNINGS = 50

_NONE: frozenset[str] = frozenset()
_MARKS = {"input": "readOnly", "patch": "readOnly", "output": "writeOnly", "exact": ""}
_BESIDE_REF = ANNOTATIONS | {"$ref", "nullable", "x-nullable"}  # what 3.0 documents mean to say beside a reference
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


class Key(NamedTuple):
    """A definition: where its schema stands in the document, for which direction, and without which members."""

    reference: str
    direction: Direction
    without: frozenset[str] = _NONE


Needed: TypeAlias = dict[str, Key]  # definitions by their names, which a converted schema refers to


class Converter:
    """Converts the schemas of one document. `dialect` is the `$schema` of all of them; empty: 2020-12."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.dialect = self._dialect(document.root.get("jsonSchemaDialect"), "")
        self.ref_alone = document.dialect == "3.0"
        self._definitions: dict[Key, tuple[Json, Needed]] = {}
        self._variants = 0
        self._names: dict[Key, str] = {}
        self._patterns: dict[str, str | None] = {}
        self._anchors: dict[str, set[str]] | None = None

    def convert(self, schema: Json, direction: Direction, needed: Needed) -> JsonObject:
        """A schema of the document in JSON Schema 2020-12. Adds to `needed` what it refers to. Raises OperationError."""
        try:
            converted = _Conversion(self, direction, needed).schema(schema)
        except RecursionError as exc:
            raise OperationError("One of its schemas is nested too deeply.") from exc
        if isinstance(converted, dict):
            return converted
        return {} if converted else {"not": {}}

    def definitions(self, needed: Needed) -> JsonObject:
        """Definitions and all that they refer to, by their names. Raises OperationError."""
        found: dict[str, Json] = {}
        waiting = list(needed.items())
        while waiting:
            name, key = waiting.pop()
            if name not in found:
                found[name], leads_to = self._definition(key)
                waiting.extend(leads_to.items())
        return dict(sorted(found.items()))

    def warn(self, text: str) -> None:
        """Notes what was adapted, once."""
        if text not in self.document.warnings and len(self.document.warnings) < MAX_WARNINGS:
            self.document.warnings.append(text)

    def target(self, reference: str) -> Json:
        """What a reference points to. Raises OperationError."""
        return references.target(self.document.root, reference)

    def check_dialect(self, named: Json) -> None:
        """Raises OperationError for a schema in another dialect than its document."""
        if self._dialect(named, self.dialect) != self.dialect:
            raise OperationError("One of its schemas names another dialect than its document.")

    def refer(self, key: Key, needed: Needed) -> str:
        """The reference to a definition, which is needed then."""
        if key.without and not self._has_variant(key):
            key = key._replace(without=_NONE)
        name = self._names.get(key) or self._names.setdefault(key, _name(key))
        needed[name] = key
        return f"#/$defs/{name}"

    def unwanted(self, schema: JsonObject, mark: str) -> frozenset[str]:
        """The members of an object that are for the other direction, wherever the object is described."""
        names: set[str] = set()
        for part in self._parts(schema, ("allOf",)):
            properties = part.get("properties")
            if isinstance(properties, dict):
                names.update(name for name, inner in properties.items() if self._is_marked(inner, mark))
        return frozenset(names) if names else _NONE

    def excluded(self, reference: str, names: frozenset[str], mark: str) -> frozenset[str]:
        """Those members that a definition would have, or ask for, if it were not told that they are excluded."""
        target = self.target(reference)
        if not isinstance(target, dict):
            return _NONE
        mentioned: set[str] = set()
        for part in self._parts(target, _IN_PLACE):
            for keyword in ("properties", "required"):
                if isinstance(part.get(keyword), dict | list):
                    mentioned.update(name for name in part[keyword] if isinstance(name, str))
        return (names & mentioned) - self.unwanted(target, mark)

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
                self.warn(f"A schema has the pattern {pattern[:100]!r}, which cannot be compiled; it is not checked.")
            self._patterns[pattern] = bare
        return self._patterns[pattern]

    def pointer(self, reference: str) -> str:
        """A reference as a JSON Pointer; it may name an anchor. Raises OperationError."""
        if reference.startswith("#/"):
            return reference
        if self._anchors is None:
            self._anchors = _anchors(self.document.root)
        places = self._anchors.get(reference, set())
        if len(places) > 1:
            raise OperationError(f"It refers to {reference[:100]!r}, and several of its document's parts have that name.")
        if not places:
            raise OperationError(f"It refers to {reference[:100]!r}, which its document does not have.")
        return next(iter(places))

    def _definition(self, key: Key) -> tuple[Json, Needed]:
        if key not in self._definitions:
            needed: Needed = {}
            try:
                converted = _Conversion(self, key.direction, needed).schema(self.target(key.reference), key.without)
            except RecursionError as exc:
                raise OperationError("One of its schemas is nested too deeply.") from exc
            self._definitions[key] = converted, needed
        return self._definitions[key]

    def _has_variant(self, key: Key) -> bool:
        self._variants += key not in self._names
        return key in self._names or self._variants <= MAX_VARIANTS

    def _parts(self, schema: JsonObject, keywords: tuple[str, ...]) -> list[JsonObject]:
        """A schema and those that look at the same value, also by reference."""
        if "$ref" not in schema and schema.keys().isdisjoint(keywords):
            return [schema]
        parts, waiting, seen = list[JsonObject](), [schema], set[int]()
        while waiting and len(parts) < MAX_IN_PLACE:
            part = waiting.pop()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            parts.append(part)
            if isinstance(part.get("$ref"), str):
                waiting.append(self.target(self.pointer(part["$ref"])))
            for keyword in keywords:
                if isinstance(part.get(keyword), list):
                    waiting.extend(part[keyword])
        return parts

    def _is_marked(self, schema: Json, mark: str) -> bool:
        if not isinstance(schema, dict):
            return False
        if schema.get(mark) is True:
            return True
        if "$ref" not in schema and "allOf" not in schema:
            return False
        return any(part.get(mark) is True for part in self._parts(schema, ("allOf",)))

    def _dialect(self, named: Json, otherwise: str) -> str:
        if not isinstance(named, str) or BASE_DIALECTS.fullmatch(named):
            return otherwise if named is None else ""
        if OTHER_DIALECTS.fullmatch(named):
            return named
        raise OperationError(f"Its schemas are in the dialect {named[:100]!r}, which is not supported.")


class _Conversion:
    """The conversion of one schema with all that stands inside it."""

    def __init__(self, converter: Converter, direction: Direction, needed: Needed) -> None:
        self._converter = converter
        self._direction: Direction = direction
        self._needed = needed
        self._mark = _MARKS[direction]

    def schema(self, schema: Json, without: frozenset[str] = _NONE) -> Json:
        """A schema, `without` some of its members, which schemas around it exclude."""
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else {}
        if self._converter.ref_alone and isinstance(schema.get("$ref"), str):
            schema = {key: value for key, value in schema.items() if key in _BESIDE_REF}
        if self._mark:
            without |= self._converter.unwanted(schema, self._mark)
        result: JsonObject = {}
        for keyword, value in schema.items():
            if (is_taken := PLAIN.get(keyword)) is not None:
                if is_taken(value):
                    result[keyword] = value
                elif value:
                    self._converter.warn(f"A schema has the {keyword} {str(value)[:40]!r}, which is left out.")
            elif (convert := _CONVERSIONS.get(keyword)) is not None:
                convert(self, keyword, value, schema, result, without)
        if required := self._required(schema, without):
            result["required"] = required
        if schema.get("nullable") is True or schema.get("x-nullable") is True:
            return or_null(result)
        return result

    # Each of these converts a keyword and its value: they stand in `schema`, and are added to `result`.

    def _text(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        if isinstance(value, str) and (text := cleaned(value)):
            result[keyword] = text

    def _type(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        try:
            types = types_of(value)
        except ValueError:
            self._converter.warn(f"A schema has the type {str(value)[:40]!r}, which there is not; it is not checked.")
            return
        if types is not None:
            result[keyword] = types

    def _enum(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        if isinstance(value, list) and value:
            result[keyword] = options_of(value, schema.get("type"))

    def _bound(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        """A bound, which 3.0 says with two keywords: whether `minimum` itself is allowed is told by a boolean."""
        if isinstance(value, bool) and not self._converter.dialect:
            inclusive = schema.get(keyword.removeprefix("exclusive").lower())
            if value and is_number(inclusive):
                result[keyword] = inclusive
        elif schema.get(f"exclusive{keyword.capitalize()}") is not True or self._converter.dialect:
            if is_number(value) or self._converter.dialect:
                result[keyword] = value
            elif value is not None:
                self._converter.warn(f"A schema has the {keyword} {str(value)[:40]!r}, which is left out.")

    def _pattern(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        if isinstance(value, str) and (pattern := self._converter.pattern(value)) is not None:
            result[keyword] = pattern

    def _ref(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        if not isinstance(value, str):
            return
        reference = self._converter.pointer(value)
        if without:
            without = self._converter.excluded(reference, without, self._mark)
        key = Key(reference, self._direction, without)
        target = self._converter.refer(key, self._needed)
        if "$ref" in result:
            result.setdefault("allOf", []).append({"$ref": target})
        else:
            result["$ref"] = target

    def _one(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        if isinstance(value, dict | bool):
            in_place = without if keyword in ("then", "else") else _NONE
            result[keyword] = self.schema(value, in_place)

    def _condition(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        if isinstance(value, dict | bool):
            result[keyword] = self._as("exact").schema(value)

    def _others(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        """Which further members there may be. Servers answer with more than they say, so answers may have any."""
        if value is False and self._direction == "output":
            return
        if isinstance(value, dict | bool):
            result[keyword] = self._member(value)

    def _items(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        items = self._as("input") if self._direction == "patch" else self  # a patch replaces arrays as a whole
        if isinstance(value, dict | bool):
            result[keyword] = items.schema(value)
        elif isinstance(value, list) and value:
            tuple_keyword = keyword if self._converter.dialect else "prefixItems"
            result[tuple_keyword] = [items.schema(inner) for inner in value]
            if tuple_keyword == "prefixItems" and isinstance(schema.get("additionalItems"), dict | bool):
                result["items"] = items.schema(schema["additionalItems"])

    def _branches(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        if not isinstance(value, list) or not value:
            return
        converted = [self.schema(branch, without) for branch in value]
        if keyword == "allOf":
            self._add_all(converted, schema, result)
            return
        if self._direction == "exact":
            result[keyword] = converted
            return
        # Of `oneOf` too: what fits two branches is no reason to refuse it, and both directions make branches wider.
        told = [self._told(branch, inner, schema) for branch, inner in zip(value, converted, strict=True)]
        if "anyOf" in result:
            result.setdefault("allOf", []).append({"anyOf": told})
        else:
            result["anyOf"] = told

    def _add_all(self, converted: list[Json], schema: JsonObject, result: JsonObject) -> None:
        branches = [branch for branch in converted if branch not in (True, {})]
        if len(branches) == 1 and branches[0].keys() == {"$ref"} and "$ref" not in schema and not self._converter.dialect:
            result["$ref"] = branches[0]["$ref"]
        elif branches:
            result["allOf"] = [*result.get("allOf", ()), *branches]

    def _told(self, branch: Json, converted: Json, schema: JsonObject) -> Json:
        """A branch that tells the value of the member by which branches are told apart, if its schema does not."""
        discriminator = schema.get("discriminator")
        name = discriminator.get("propertyName") if isinstance(discriminator, dict) else None
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        if not isinstance(name, str) or not isinstance(reference, str) or self._converter.dialect:
            return converted
        for part in self._converter._parts(branch, ("allOf",)):
            properties = part.get("properties")
            member = properties.get(name) if isinstance(properties, dict) else None
            if isinstance(member, dict) and ("const" in member or len(member.get("enum") or "") == 1):
                return converted
        implied = reference.rpartition("/")[2]
        mapping = discriminator.get("mapping")
        mapped = [key for key, to in mapping.items() if to in (reference, implied)] if isinstance(mapping, dict) else []
        values = " or ".join(f'"{value}"' for value in mapped or [implied])
        own = self._converter.target(self._converter.pointer(reference))
        text = own.get("description") if isinstance(own, dict) else None
        hint = cleaned(f"{name}: {values}" + (f"\n\n{text}" if isinstance(text, str) else ""))
        return {**converted, "description": hint}

    def _properties(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        if isinstance(value, dict):
            members = {name: self._member(inner) for name, inner in value.items() if name not in without}
            if members:
                result[keyword] = members

    def _named(self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]) -> None:
        """Schemas by names: of members that match patterns, and of objects that have a member."""
        if not isinstance(value, dict):
            return
        if keyword == "dependentSchemas":
            named = {name: self.schema(inner, without) for name, inner in value.items()}
        else:
            patterns = {name: self._converter.pattern(name) for name in value}
            named = {bare: self._member(value[name]) for name, bare in patterns.items() if bare is not None}
        if named:
            result[keyword] = named

    def _dependent(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        if isinstance(value, dict) and self._direction != "patch":
            result[keyword] = {
                name: [other for other in dict.fromkeys(others) if isinstance(other, str) and other not in without]
                for name, others in value.items()
                if isinstance(others, list)
            }

    def _other_dialect(
        self, keyword: str, value: Json, schema: JsonObject, result: JsonObject, without: frozenset[str]
    ) -> None:
        self._converter.check_dialect(value)

    def _member(self, schema: Json) -> Json:
        """The schema of a member, which a patch may set to null."""
        return or_null(self.schema(schema)) if self._direction == "patch" else self.schema(schema)

    def _as(self, direction: Direction) -> _Conversion:
        return _Conversion(self._converter, direction, self._needed)

    def _required(self, schema: JsonObject, without: frozenset[str]) -> list[str]:
        """The members that an object must have; 3.0 documents also say so in the schemas of the members themselves."""
        names, properties = schema.get("required"), schema.get("properties")
        if self._direction == "patch":
            return []
        required = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        if isinstance(properties, dict):
            required += [
                name for name, inner in properties.items() if isinstance(inner, dict) and inner.get("required") is True
            ]
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                if missing := [name for name in required if name not in properties]:
                    self._converter.warn(f"A schema requires {missing[0][:40]!r}, which it does not allow; it may be left out.")
                required = [name for name in required if name in properties]
        return list(dict.fromkeys(name for name in required if name not in without))


_CONVERSIONS: dict[str, Callable[[_Conversion, str, Json, JsonObject, JsonObject, frozenset[str]], None]] = {
    "$ref": _Conversion._ref,
    "$dynamicRef": _Conversion._ref,
    "$schema": _Conversion._other_dialect,
    "description": _Conversion._text,
    "type": _Conversion._type,
    "enum": _Conversion._enum,
    "pattern": _Conversion._pattern,
    "minimum": _Conversion._bound,
    "maximum": _Conversion._bound,
    "exclusiveMinimum": _Conversion._bound,
    "exclusiveMaximum": _Conversion._bound,
    "properties": _Conversion._properties,
    "patternProperties": _Conversion._named,
    "dependentSchemas": _Conversion._named,
    "dependentRequired": _Conversion._dependent,
    "additionalProperties": _Conversion._others,
    "unevaluatedProperties": _Conversion._others,
    "propertyNames": _Conversion._one,
    "then": _Conversion._one,
    "else": _Conversion._one,
    "unevaluatedItems": _Conversion._one,
    "not": _Conversion._condition,
    "if": _Conversion._condition,
    "contains": _Conversion._condition,
    "items": _Conversion._items,
    "prefixItems": _Conversion._items,
    "allOf": _Conversion._branches,
    "anyOf": _Conversion._branches,
    "oneOf": _Conversion._branches,
}


def _name(key: Key) -> str:
    """The name of a definition: that of a component, else one with a digest, whatever else the document holds."""
    tokens = references.tokens(key.reference)
    last = _FOREIGN.sub("_", tokens[-1])[:64]
    is_component = tokens == ["components", "schemas", last]
    if is_component and not key.without and key.direction in ("input", "output"):
        return last
    identity = "\0".join((*tokens, key.direction, *sorted(key.without)))
    return f"{last}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _anchors(root: JsonObject) -> dict[str, set[str]]:
    """The pointers to all schemas that have a name of their own, by what refers to them."""
    found: dict[str, set[str]] = {}
    waiting: list[tuple[Json, str]] = [(root, "#")]
    while waiting:
        node, place = waiting.pop()
        inner = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
        for name, value in inner:
            if name in ("$anchor", "$dynamicAnchor", "$id") and isinstance(value, str):
                found.setdefault(value if name == "$id" else f"#{value}", set()).add(place)
            elif isinstance(value, dict | list):
                token = str(name).replace("~", "~0").replace("/", "~1").replace("%", "%25")
                waiting.append((value, f"{place}/{token}"))
    return found
