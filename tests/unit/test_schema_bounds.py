"""Small schemas that would become large: what is made of them, compiled or inlined, stays in proportion."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from gateway import jsontext
from gateway.schemas import SchemaError, compile_input, inline_refs, is_json_schema
from gateway.schemas.inline import MAX_ADDED_BYTES
from tests.unit.compiling import errors

QUICK_S = 5.0  # of a processor; each of these took from ten seconds to minutes, or gigabytes
COUNTRIES = {"enum": [f"country {number:05d}" for number in range(5_000)]}


def properties(count: int, schema: Any) -> dict[str, Any]:
    return {f"p{number}": schema(number) if callable(schema) else schema for number in range(count)}


def repeating(times: int) -> dict[str, Any]:
    """A schema of about 100 KB whose largest part is referred to so many times."""
    return {
        "type": "object",
        "properties": properties(times, {"$ref": "#/$defs/Country"}),
        "$defs": {"Country": COUNTRIES},
    }


def test_a_long_list_that_is_named_twice_is_put_where_it_is_named() -> None:
    inlined = inline_refs(repeating(2))
    assert inlined == {"type": "object", "properties": properties(2, COUNTRIES)}


def test_a_long_list_that_is_named_a_thousand_times_stays_where_it_is() -> None:
    """It was 100 MB of text, and 15 s of work between two looks at the event loop."""
    schema = repeating(1_000)
    began = time.process_time()
    assert inline_refs(schema) is schema
    assert time.process_time() - began < QUICK_S


def test_what_is_inside_of_what_is_repeated_counts_each_time() -> None:
    pair = {"properties": properties(10, {"$ref": "#/$defs/Country"})}
    schema = {
        "type": "object",
        "properties": properties(10, {"$ref": "#/$defs/Pair"}),
        "$defs": {"Pair": pair, "Country": COUNTRIES},
    }
    assert inline_refs(schema) is schema


@pytest.mark.parametrize("times", range(1, 16))
def test_inlining_adds_no_more_than_its_bound(times: int) -> None:
    schema = repeating(times)
    assert len(jsontext.encode(inline_refs(schema))) <= len(jsontext.encode(schema)) + MAX_ADDED_BYTES


def test_a_wrong_value_is_explained_although_the_schema_was_not_inlined() -> None:
    compiled = compile_input(repeating(1_000))
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
    compile_input(schema | {"type": "object"})
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
        compile_input({"type": "object", "properties": properties(200, large)})
    assert time.process_time() - began < QUICK_S


@pytest.mark.parametrize("large", LARGE)
def test_a_few_large_patterns_are_taken(large: Any) -> None:
    compile_input({"type": "object", "properties": properties(3, large)})


def test_many_ordinary_patterns_are_taken_and_a_repeated_one_counts_once() -> None:
    ordinary = properties(1_000, lambda number: {"pattern": rf"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.x{number}$"})
    names = properties(1_000, {"pattern": r"^\p{L}{20}$"})
    compiled = compile_input({"type": "object", "properties": ordinary})
    assert errors(compiled, {"p7": "a-b.x7"}) == {}
    assert errors(compiled, {"p7": "a-b.x8"}) != {}
    assert errors({"type": "object", "properties": names}, {"p1": "x" * 20}) == {}
