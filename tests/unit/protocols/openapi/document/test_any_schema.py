"""Schemas of OpenAPI 3.0 allow the same values after they are converted, in the eyes of a validator of others."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS30ReadValidator, OAS30Validator, OAS30WriteValidator

from gateway.protocols.openapi.document.plan import UnresolvedError
from gateway.schemas import CompiledSchema, SchemaError
from tests.unit.protocols.openapi.document.converting import converted

NAMES = st.sampled_from(["a", "b", "nullable", "$ref"])
REFS = st.sampled_from(["#/components/schemas/A", "#/components/schemas/B"]).map(lambda ref: {"$ref": ref})
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -2.5, "", "a", "bb"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
COUNTS = st.integers(0, 2)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "exclusiveMinimum": st.booleans(),
        "exclusiveMaximum": st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "nullable": st.booleans(),
    },
)
TEXTS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": COUNTS, "pattern": st.just("^a"), "nullable": st.booleans(), "example": SCALARS},
)
OPTIONS = st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=4)})


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"minItems": COUNTS, "maxItems": COUNTS, "uniqueItems": st.booleans(), "nullable": st.booleans()},
    )
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "minProperties": COUNTS,
            "nullable": st.booleans(),
        },
    )
    branches = st.lists(inner, min_size=1, max_size=3)
    whole = st.sampled_from(["allOf", "anyOf", "oneOf"]).flatmap(
        lambda keyword: st.fixed_dictionaries({keyword: branches}, optional={"not": inner})
    )
    return arrays | objects | whole


def _marked(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with members that are for one direction."""
    marks = st.sampled_from([{}, {"readOnly": True}, {"writeOnly": True}])
    member = st.tuples(inner, marks).map(lambda both: {**both[0], **both[1]})
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, member, min_size=1, max_size=3)},
        optional={"required": st.lists(NAMES, min_size=1, max_size=2, unique=True)},
    )


PLAIN = NUMBERS | TEXTS | OPTIONS
SCHEMAS = st.recursive(PLAIN | REFS, _larger, max_leaves=5)
MORE = st.lists(VALUES, min_size=4, max_size=8)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.fixed_dictionaries({"A": SCHEMAS, "B": PLAIN}), MORE)
def test_a_schema_allows_what_it_allowed(schema: Any, schemas: Any, values: list[Any]) -> None:
    judge = OAS30Validator({**schema, "components": {"schemas": schemas}})
    try:
        strict, lenient = (converted(schema, direction, schemas=schemas) for direction in ("exact", "output"))
        exact, loose = CompiledSchema.compile(strict), CompiledSchema.compile(lenient)
    except (SchemaError, UnresolvedError) as exc:
        assert re.search("without ever looking deeper|a chain of more than", str(exc)), exc  # noqa: PT017 - `A` may be `A`
        return
    for value in values:
        valid = judge.is_valid(value)
        assert exact.is_valid(value) == valid, value
        assert loose.is_valid(value) >= valid, value


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(_marked(PLAIN), MORE)
def test_the_schema_for_a_direction_allows_what_that_direction_allows(schema: Any, values: list[Any]) -> None:
    objects = [value for value in values if isinstance(value, dict)] + [{}, {"a": 1}, {"b": "a"}, {"a": 1, "b": "a"}]
    for direction, judge in (("input", OAS30WriteValidator(schema)), ("output", OAS30ReadValidator(schema))):
        compiled = CompiledSchema.compile(converted(schema, direction))  # type: ignore[arg-type] # one of two
        for value in objects:
            assert compiled.is_valid(value) >= judge.is_valid(value), (direction, value)
