"""Schemas that are broken are refused; what is made of small schemas that could grow stays in proportion."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from gateway.core import jsontext
from gateway.schemas import CompiledSchema, SchemaError, check_input, inline_refs, is_json_schema
from gateway.schemas.inline import MAX_ADDED_BYTES
from tests.unit.schemas.compiling import errors, properties

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
        check_input(schema)
    return caught.value.reason


BROKEN = [
    ([], "It is not a JSON object."),
    (True, "It is not a JSON object."),
    ({"type": "array"}, "It does not describe an object, and arguments always are one."),
    (
        properties(a={"type": "int"}),
        "At properties.a.type: a type is array, boolean, integer, null, number, object or string, or a list of these.",
    ),
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
    assert reason(schema) == "It makes more than 20000 schemas apply to one value."


def test_a_long_chain_of_references_is_refused() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert "150 schemas" in reason({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}})


def test_references_spelled_in_many_ways_do_not_multiply_the_work() -> None:
    spelled = {f"p{n}": {"$ref": "#/$defs/" + "".join(_spelled(n))} for n in range(2000)}
    started = time.process_time()
    check_input({"properties": spelled, "$defs": {"abcdefghijk": properties(**spelled)}})
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
    schema = CompiledSchema.compile(properties(a={"pattern": pattern}))
    started = time.process_time()
    assert set(errors(schema, {"a": value})) == {"a"}
    assert time.process_time() - started < QUICK_S


def test_patterns_with_look_around_work() -> None:
    schema = CompiledSchema.compile(properties(a={"pattern": "^(?!admin$)[a-z]+$"}))
    assert errors(schema, {"a": "bob"}) == {}
    assert set(errors(schema, {"a": "admin"})) == {"a"}


def test_a_wrong_value_of_a_recursive_union_is_explained_in_no_time() -> None:
    """The library's own errors hold a tree that doubles with each level: 2.2 s at 14, hours at 30."""
    schema = CompiledSchema.compile(EXPRESSION)
    value = nested(60, {"op": "?"}, op="not")
    started = time.process_time()
    assert errors(schema, {"e": value}) == {
        "e": 'is neither an object with op "add" nor an object with op "not"',
    }
    assert time.process_time() - started < QUICK_S


COUNTRIES = {"enum": [f"country {number:05d}" for number in range(5_000)]}


def numbered(count: int, schema: Any) -> dict[str, Any]:
    return {f"p{number}": schema(number) if callable(schema) else schema for number in range(count)}


def repeating(times: int) -> dict[str, Any]:
    """A schema of about 100 KB whose largest part is referred to so many times."""
    return {
        "type": "object",
        "properties": numbered(times, {"$ref": "#/$defs/Country"}),
        "$defs": {"Country": COUNTRIES},
    }


def test_a_long_list_that_is_named_twice_is_put_where_it_is_named() -> None:
    inlined = inline_refs(repeating(2))
    assert inlined == {"type": "object", "properties": numbered(2, COUNTRIES)}


def test_a_long_list_that_is_named_a_thousand_times_stays_where_it_is() -> None:
    """It was 100 MB of text, and 15 s of work between two looks at the event loop."""
    schema = repeating(1_000)
    began = time.process_time()
    assert inline_refs(schema) is schema
    assert time.process_time() - began < QUICK_S


def test_what_is_inside_of_what_is_repeated_counts_each_time() -> None:
    pair = {"properties": numbered(10, {"$ref": "#/$defs/Country"})}
    schema = {
        "type": "object",
        "properties": numbered(10, {"$ref": "#/$defs/Pair"}),
        "$defs": {"Pair": pair, "Country": COUNTRIES},
    }
    assert inline_refs(schema) is schema


@pytest.mark.parametrize("times", range(1, 16))
def test_inlining_adds_no_more_than_its_bound(times: int) -> None:
    schema = repeating(times)
    assert len(jsontext.encode(inline_refs(schema))) <= len(jsontext.encode(schema)) + MAX_ADDED_BYTES


def test_a_wrong_value_is_explained_although_the_schema_was_not_inlined() -> None:
    compiled = CompiledSchema.compile(repeating(1_000))
    began = time.process_time()
    assert errors(compiled, {"p7": "nowhere"})["p7"].startswith("is not one of")
    assert time.process_time() - began < QUICK_S


@pytest.mark.parametrize("end", ["", "#", "/draft-07/schema#"])
def test_a_draft_that_is_not_known_is_not_asked_for(end: str) -> None:
    """A tool server wrote it, and it may lead anywhere."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        assert not is_json_schema({"$schema": f"http://127.0.0.1:{port}/x{end}"})
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("draft", ["draft-04/", "draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/", ""])
@pytest.mark.parametrize("spelled", ["http://json-schema.org/{}schema#", "https://json-schema.org/{}schema"])
def test_every_known_draft_has_a_meta_schema_of_its_own(draft: str, spelled: str) -> None:
    """However its name is spelled, a schema that can be compiled is one."""
    schema = {"$schema": spelled.format(draft)}
    check_input(schema | {"type": "object"})
    assert is_json_schema(schema | {"type": "object"})
    assert not is_json_schema(schema | {"type": "strnig"})
    assert is_json_schema(schema | {"exclusiveMinimum": True, "minimum": 1}) is (draft == "draft-04/")


LARGE = [
    lambda number: {"pattern": rf"^\p{{L}}{{{100 + number}}}$"},
    lambda number: {"pattern": rf"^(?=a)\w{{1,{100 + number}}}$"},
    lambda number: {"patternProperties": {rf"^\p{{L}}{{{100 + number}}}$": True}},
]


@pytest.mark.parametrize("large", LARGE)
def test_many_large_patterns_are_refused_together(large: Any) -> None:
    """Two hundred of them, 8 KB, took 15 s and a gigabyte."""
    began = time.process_time()
    with pytest.raises(SchemaError, match="takes too much room"):
        check_input({"type": "object", "properties": numbered(200, large)})
    assert time.process_time() - began < QUICK_S


@pytest.mark.parametrize("large", LARGE)
def test_a_few_large_patterns_are_taken(large: Any) -> None:
    check_input({"type": "object", "properties": numbered(3, large)})


def test_many_ordinary_patterns_are_taken_and_a_repeated_one_counts_once() -> None:
    ordinary = numbered(1_000, lambda number: {"pattern": rf"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.x{number}$"})
    names = numbered(1_000, {"pattern": r"^\p{L}{20}$"})
    compiled = CompiledSchema.compile({"type": "object", "properties": ordinary})
    assert errors(compiled, {"p7": "a-b.x7"}) == {}
    assert errors(compiled, {"p7": "a-b.x8"}) != {}
    assert errors({"type": "object", "properties": names}, {"p1": "x" * 20}) == {}
