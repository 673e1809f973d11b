"""Schemas that are broken, or that would cost too much to look at: refused, or of no cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.schemas import SchemaError, compile_input
from tests.unit.compiling import errors, properties

QUICK_S = 5.0  # of a processor; a tenth of a second at most does, and minutes for what doubles or is squared
NO_PATTERN = "the pattern is no regular expression, or takes too much room"

EXPRESSION = {
    "type": "object",
    "properties": {"e": {"$ref": "#/$defs/Expression"}},
    "$defs": {
        "Expression": {"anyOf": [{"$ref": "#/$defs/Add"}, {"$ref": "#/$defs/Not"}]},
        "Add": {"properties": {"op": {"const": "add"}, "x": {"$ref": "#/$defs/Expression"}}, "required": ["op"]},
        "Not": {"properties": {"op": {"const": "not"}, "x": {"$ref": "#/$defs/Expression"}}, "required": ["op"]},
    },
}


def nested(levels: int, innermost: Any, **members: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = {**members, "x": value}
    return value


def reason(schema: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        compile_input(schema)
    return caught.value.reason


BROKEN = [
    ([], "It is not a JSON object."),
    (True, "It is not a JSON object."),
    ({"type": "array"}, "It does not describe an object, and arguments always are one."),
    (properties(a={"minLength": "x"}), 'At properties.a.minLength: the value is not of type "integer".'),
    (properties(a={"pattern": "("}), f"At properties.a.pattern: {NO_PATTERN}."),
    (properties(a={"pattern": "(a{1000}){1000}"}), f"At properties.a.pattern: {NO_PATTERN}."),
    (
        properties(a={"$ref": "file:///etc/passwd"}),
        "It refers to 'file:///etc/passwd', outside of itself; only local references are followed.",
    ),
    (properties(a={"$ref": "#/$defs/b"}), "It refers to '#/$defs/b', which it does not contain."),
    (properties(a={"$ref": "#/properties/a/x/0"}), "It refers to '#/properties/a/x/0', which it does not contain."),
]


@pytest.mark.parametrize(("schema", "said"), BROKEN)
def test_a_broken_schema_is_refused_with_a_sentence(schema: Any, said: str) -> None:
    assert reason(schema) == said


def test_an_unknown_meta_schema_is_refused() -> None:
    assert "https://example.com/mine" in reason({"$schema": "https://example.com/mine"})


def test_a_schema_that_nests_without_end_is_refused() -> None:
    assert reason(nested(200, {})) == "It is nested deeper than 150 levels."
    assert reason(nested(100_000, {})) == "It is nested deeper than 150 levels."


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_chain_of_doublings_is_refused(keyword: str) -> None:
    """Thirty steps make the validator look a thousand million times: 13 s."""
    chain = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(30)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d30": {"type": "object"}}}
    assert reason(schema) == "It makes more than 20000 schemas look at one value."


def test_a_long_chain_of_references_is_refused() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert "150 schemas" in reason({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}})


def test_references_spelled_in_many_ways_do_not_multiply_the_work() -> None:
    spelled = {f"p{n}": {"$ref": "#/$defs/" + "".join(_spelled(n))} for n in range(2000)}
    started = time.process_time()
    compile_input({"properties": spelled, "$defs": {"abcdefghijk": properties(**spelled)}})
    assert time.process_time() - started < QUICK_S


def _spelled(number: int) -> list[str]:
    return [f"%{ord(c):x}" if number >> place & 1 else c for place, c in enumerate("abcdefghijk")]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"not": {"$ref": "#"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{}, {"$ref": "#/$defs/a"}]}}},
    ],
)
def test_a_schema_that_is_defined_by_itself_is_refused(schema: dict[str, Any]) -> None:
    """The specification leaves it undefined, and so does the validator: order decides what it answers."""
    assert reason(schema) == "It refers to itself without ever looking deeper into the value."


@pytest.mark.parametrize("value", ["a" * 200_000 + "!", "a" * 30 + "!"])
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!x)(a+)+$"])
def test_no_pattern_takes_long(pattern: str, value: str) -> None:
    schema = compile_input(properties(a={"pattern": pattern}))
    started = time.process_time()
    assert set(errors(schema, {"a": value})) == {"a"}
    assert time.process_time() - started < QUICK_S


def test_patterns_with_look_around_work() -> None:
    schema = compile_input(properties(a={"pattern": "^(?!admin$)[a-z]+$"}))
    assert errors(schema, {"a": "bob"}) == {}
    assert set(errors(schema, {"a": "admin"})) == {"a"}


def test_a_wrong_value_of_a_recursive_union_is_explained_in_no_time() -> None:
    """The library's own errors hold a tree that doubles with each level: 2.2 s at 14, hours at 30."""
    schema = compile_input(EXPRESSION)
    value = nested(60, {"op": "?"}, op="not")
    started = time.process_time()
    assert errors(schema, {"e": value}) == {
        "e": 'is neither an object with op "add" nor an object with op "not"',
    }
    assert time.process_time() - started < QUICK_S
