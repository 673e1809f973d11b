"""Which types the values of a schema have, and what of a schema has a form in a style (OpenAPI 3.2, Style Values).

Most styles have a form for texts, numbers and booleans, and for arrays and objects of these; only that is listed.
"""

from __future__ import annotations

from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document.conversion import ANNOTATIONS, Converter
from gateway.protocols.openapi.document.plan import OperationError
from gateway.protocols.openapi.document.schemas import texts_of

SCALARS = frozenset({"boolean", "integer", "null", "number", "string"})
VALUES = SCALARS | {"array", "object"}
ITEMS = SCALARS - {"null"}  # an item cannot be left out
NO_FORM = "its values are of a kind that has no form there."

_BRANCHES = ("anyOf", "oneOf")


def kinds_of(schema: Json, converter: Converter) -> frozenset[str]:
    """The types that values of a schema of the document have; empty: any."""
    if not isinstance(schema, dict):
        return frozenset()
    if isinstance(kind := schema.get("type"), str):
        return frozenset((kind,))
    for part in converter.parts(schema, "allOf"):
        types = part.get("type")
        named = types if isinstance(types, list) else [types]
        if kinds := frozenset(kind for kind in named if isinstance(kind, str)):
            return kinds
        for keyword, kind in (("properties", "object"), ("items", "array")):
            if keyword in part:
                return frozenset({kind})
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            alternatives = [
                kinds_of(branch if "$ref" not in branch else converter.resolve(branch), converter)
                for branch in branches
                if isinstance(branch, dict)
            ]
            return frozenset().union(*alternatives) if all(alternatives) else frozenset()
    return frozenset()


def of_kinds(schema: Json, kinds: frozenset[str], converter: Converter) -> Json:
    """A schema of its values that are of some kinds, whatever is in them. Raises OperationError if there are none."""
    return _Restriction(kinds, converter).of(schema)


def restricted(schema: Json, kinds: frozenset[str], converter: Converter) -> Json:
    """A schema of its values that are of some kinds, with no arrays and objects inside: itself if all are so.

    Raises OperationError if there are none.
    """
    if "null" in kinds and (own_kinds := kinds_of(schema, converter)) and own_kinds <= SCALARS & kinds:
        return schema  # as most are
    return _Restriction(kinds, converter, items=ITEMS, members=SCALARS).of(schema)


class _Restriction:
    """Schemas of values of some kinds; None: items or members may be anything."""

    def __init__(
        self,
        kinds: frozenset[str],
        converter: Converter,
        items: frozenset[str] | None = None,
        members: frozenset[str] | None = None,
    ) -> None:
        self._kinds = kinds
        self._converter = converter
        self._items = items
        self._members = members

    def of(self, schema: Json) -> Json:
        """The schema of those of its values. Raises OperationError if there are none."""
        if schema is False:
            raise OperationError(NO_FORM)
        if not isinstance(schema, dict):
            schema = {}
        source = self._resolved(schema)
        result = dict(source) if "null" in self._kinds else _without_null(source)
        for keyword in (*_BRANCHES, "allOf"):
            if isinstance(branches := source.get(keyword), list) and branches:
                result[keyword] = self._branches(branches, are_all=keyword == "allOf")
        self._restrict_options(source, result)
        self._restrict_type(source, result, self._restrict_inner(source, result))
        return schema if result == source else result

    def _restrict_options(self, source: JsonObject, result: JsonObject) -> None:
        """Takes values out of an `enum` that are of other kinds. Raises OperationError if there are no more."""
        options = result.get("enum", [source["const"]] if "const" in source else None)
        if isinstance(options, list) and options:
            allowed = [option for option in options if _kind(option) in self._kinds]
            if not allowed:
                raise OperationError(NO_FORM)
            if "enum" in result:
                result["enum"] = allowed

    def _restrict_inner(self, source: JsonObject, result: JsonObject) -> frozenset[str]:
        """Restricts what is inside arrays and objects. Returns the kinds that values can still have."""
        kinds = self._kinds_left(source)
        if self._items is not None and "array" in kinds:
            kinds -= self._restrict_items(source, result, self._items)
        if self._members is not None and "object" in kinds:
            kinds -= self._restrict_members(source, result, self._members)
        if not kinds:
            raise OperationError(NO_FORM)
        return kinds

    def _restrict_type(self, source: JsonObject, result: JsonObject, kinds: frozenset[str]) -> None:
        declared = _declared(source)
        if declared is not None:
            if not kinds.issuperset(declared):
                result["type"] = [kind for kind in sorted(declared) if kind in kinds]
        elif kinds != (self._kinds if _says_kinds(source) else VALUES):
            result["type"] = sorted(kinds - {"integer"} if "number" in kinds else kinds)

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """A schema with what it refers to in its place."""
        if not isinstance(schema.get("$ref"), str):
            return schema
        beside = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        return {**self._converter.resolve(schema), **beside}

    def _branches(self, branches: list[Json], *, are_all: bool) -> list[Json]:
        """The branches that may hold, or all of those that have to. Raises OperationError."""
        usable: list[Json] = []
        for branch in branches:
            try:
                usable.append(self.of(branch))
            except OperationError:
                if are_all:
                    raise
        if not usable:
            raise OperationError(NO_FORM)
        return usable

    def _kinds_left(self, schema: JsonObject) -> frozenset[str]:
        """The kinds that values may have, by this schema itself."""
        declared = _declared(schema)
        if declared is not None:
            return self._kinds & declared
        if "properties" in schema:
            return self._kinds & {"object"}
        if "items" in schema:
            return self._kinds & {"array"}
        return self._kinds

    def _restrict_items(self, schema: JsonObject, result: JsonObject, kinds: frozenset[str]) -> frozenset[str]:
        """Makes items ones of some kinds. Returns the kinds that no value can have then."""
        items = schema.get("items", {})
        try:
            for keyword, value in (("items", items), ("prefixItems", schema.get("prefixItems"))):
                if isinstance(value, list):
                    result[keyword] = [of_kinds(item, kinds, self._converter) for item in value]
                elif value is not None:
                    result[keyword] = of_kinds(value, kinds, self._converter)
        except OperationError:
            for keyword in ("items", "prefixItems"):
                result.pop(keyword, None)
            return frozenset({"array"})
        if items == {} and _is_in_place(schema):
            result.pop("items", None)  # other parts say what items are
        return frozenset()

    def _restrict_members(self, schema: JsonObject, result: JsonObject, kinds: frozenset[str]) -> frozenset[str]:
        """Makes members ones of some kinds, without those that cannot be. Returns kinds that no value can have then."""
        required = texts_of(schema.get("required"))
        properties = schema.get("properties")
        members: JsonObject = {}
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            try:
                members[name] = of_kinds(inner, kinds, self._converter)
            except OperationError:
                if name in required:
                    result.pop("properties", None)
                    return frozenset({"object"})
        if isinstance(properties, dict):
            result["properties"] = members
        if schema.get("additionalProperties") is not False and not _is_in_place(schema):
            try:
                result["additionalProperties"] = of_kinds(
                    schema.get("additionalProperties", {}), kinds, self._converter
                )
            except OperationError:
                result["additionalProperties"] = False
        return frozenset()


def _kind(value: Json) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _without_null(schema: JsonObject) -> JsonObject:
    result = {key: value for key, value in schema.items() if key not in ("nullable", "x-nullable")}
    if isinstance(options := result.get("enum"), list) and None in options:
        result["enum"] = [option for option in options if option is not None]
    return result


def _says_kinds(schema: JsonObject) -> bool:
    """Whether other keywords than `type` say what kinds values are of."""
    lists = (schema.get(keyword) for keyword in (*_BRANCHES, "allOf", "enum"))
    return "const" in schema or any(isinstance(value, list) and value for value in lists)


def _declared(schema: JsonObject) -> frozenset[str] | None:
    """The types that a schema names itself; a number may be an integer. None: it names none."""
    named = schema.get("type")
    types = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    kinds = frozenset(kind for kind in types if isinstance(kind, str) and kind in VALUES)
    return kinds or None


def _is_in_place(schema: JsonObject) -> bool:
    """Whether other schemas describe the same value."""
    return not schema.keys().isdisjoint((*_BRANCHES, "allOf"))
