"""How long a check may take, estimated from the schema and the size of the value before it is begun."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec import Raw

from gateway.core import jsontext
from gateway.core.model import JsonObject
from gateway.schemas import CompiledSchema, SchemaError
from gateway.schemas.cost import MAX_HERE_NS
from tests.unit.schemas.compiling import errors_now

QUICK_S = 20 * MAX_HERE_NS / 1e9  # of a processor, on a slow and busy machine
BOTH = r"(?=.*[A-Z])(?=.*[0-9]).{8,}"


def arguments(name: str, schema: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {name: schema}}


HEAVY: dict[str, tuple[JsonObject, JsonObject]] = {
    "look-around": (arguments("a", {"pattern": BOTH}), {"a": "a" * 900_000}),
    "repeats": (arguments("a", {"pattern": "a[ab]{5000}c"}), {"a": "ab" * 150_000}),
    "alternatives": (arguments("a", {"items": {"allOf": [{"minimum": 0}] * 8000}}), {"a": [0] * 500_000}),
    "names": (
        arguments("a", {"items": {"required": [f"p{n}" for n in range(2000)]}}),
        {"a": [dict.fromkeys([f"p{n}" for n in range(1999)], 0)] * 1000},
    ),
    "objects": (arguments("a", {"items": {"enum": [[n] * 10 for n in range(1000)]}}), {"a": [[-1] * 10] * 20_000}),
    "many values": (arguments("a", {"items": {"type": "integer"}}), {"a": [0] * 500_000}),
}


@pytest.mark.parametrize(("schema", "value"), HEAVY.values(), ids=HEAVY)
def test_what_takes_long_is_not_done_here(schema: JsonObject, value: JsonObject) -> None:
    compiled, size = CompiledSchema.compile(schema), len(jsontext.encode(value))
    began = time.process_time()
    assert errors_now(compiled, value, size) is None
    assert time.process_time() - began < QUICK_S


LIGHT: dict[str, tuple[JsonObject, Any]] = {
    "short": (arguments("a", {"type": "string", "pattern": "^[a-z]+$"}), {"a": "abc"}),
    "a password": (arguments("a", {"pattern": BOTH}), {"a": "Passw0rd-and-more"}),
    "a long text": (arguments("a", {"type": "string"}), {"a": "x" * 1_000_000}),
    "many numbers": (arguments("a", {"items": {"type": "number"}}), {"a": [0.5] * 4000}),
    "many options": (arguments("a", {"enum": [str(n) for n in range(3000)]}), {"a": "2999"}),
}


@pytest.mark.parametrize(("schema", "value"), LIGHT.values(), ids=LIGHT)
def test_what_takes_no_time_is_done_here(schema: JsonObject, value: Any) -> None:
    assert errors_now(CompiledSchema.compile(schema), value, len(jsontext.encode(value))) == {}


def test_ordinary_mistakes_are_put_into_words_here() -> None:
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "minLength": 1} for n in range(20)},
        "required": [f"p{n}" for n in range(20)],
    }
    found = errors_now(CompiledSchema.compile(schema), {"p0": 1}, 8)
    assert found is not None
    assert found["p0"] == "is not a string"
    assert found["p19"] == "is required"


def test_many_mistakes_are_put_into_words_elsewhere() -> None:
    value = {"a": ["x"] * 4000}
    assert errors_now(CompiledSchema.compile(arguments("a", {"items": {"type": "integer"}})), value, 20_000) is None


TO_COMPILE: dict[str, tuple[JsonObject, bool]] = {
    "short": ({"pattern": "^[a-z]+$"}, True),
    "look-around": ({"pattern": BOTH}, True),
    "a large pattern": ({"pattern": r"\p{L}{99}"}, False),
    "many patterns": ({"patternProperties": {f"^{n}": {} for n in range(100)}, "items": {"pattern": "x"}}, True),
    "a long schema": ({"description": "x" * 20_000}, False),
}


@pytest.mark.parametrize(("schema", "is_here"), TO_COMPILE.values(), ids=TO_COMPILE)
def test_what_takes_long_to_compile_is_compiled_elsewhere(schema: JsonObject, is_here: bool) -> None:
    assert (CompiledSchema(schema).findings_now(1, 1) is not None) == is_here


def test_a_schema_that_cannot_be_used_says_so_at_each_check() -> None:
    schema = CompiledSchema({"type": "nothing"})
    for _ in range(2):
        with pytest.raises(SchemaError, match="type"):
            schema.findings_now(1, 1)


def test_a_value_that_is_still_text_is_decided_elsewhere() -> None:
    assert errors_now(CompiledSchema.compile({}), Raw(b"{}"), 2) is None
    assert CompiledSchema.compile({}).findings_now(Raw(b"{}"), 2) is None
