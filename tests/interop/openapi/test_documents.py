"""Real documents: how many of their operations are tools, and why others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests import plainhttp
from tests.interop.openapi import documents
from tests.interop.openapi.documents import GOLDEN, outcome, read
from tests.interop.openapi.programs import README

WRITTEN: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
DIFFERING = (README / "3.1/json/parameters-style.json",)  # has other methods than its twin
MODERN = "https://json-schema.org/draft/2020-12/schema"


@pytest.fixture(scope="module")
def files() -> dict[str, Path]:
    return dict(documents.files())


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in ("FastAPI", "httpbin")])
def test_what_becomes_of_the_operations_of_a_document_is_written_down(files: dict[str, Path], name: str) -> None:
    assert outcome(files[name].read_bytes()) == WRITTEN[name]


def test_what_becomes_of_the_operations_of_a_served_document_is_written_down(notes: str, bin_: str) -> None:
    with plainhttp.client() as http:
        assert outcome(http.get(f"{notes}/openapi.json").content) == WRITTEN["FastAPI"]
        assert outcome(http.get(f"{bin_}/spec.json").content) == WRITTEN["httpbin"]


def test_every_document_is_written_down(files: dict[str, Path]) -> None:
    assert WRITTEN.keys() == {*files, "FastAPI", "httpbin"}


def test_documents_in_yaml_give_the_calls_that_they_give_in_json() -> None:
    files = sorted(README.glob("*/json/**/*.json"))
    pairs = [(file, _twin(file)) for file in files if _twin(file).exists() and file not in DIFFERING]
    assert len(pairs) > 50
    for file, twin in pairs:
        # Their texts are folded in other ways.
        one, other = ([(tool.name, tool.plan) for tool in read(each.read_bytes())[1]] for each in (file, twin))
        assert one == other, file


def _twin(file: Path) -> Path:
    return Path(str(file).replace("/json/", "/yaml/")).with_suffix(".yaml")


def test_every_tool_has_a_name_and_schemas_that_callers_can_use(files: dict[str, Path]) -> None:
    for name, file in files.items():
        _, tools = read(file.read_bytes())
        names = [tool.name for tool in tools]
        assert len(set(names)) == len(names), name
        for tool in tools:
            assert 0 < len(tool.name) <= 64, tool.name
            assert tool.description.strip(), tool.name
            assert tool.input_schema["type"] == "object"
            for schema in (tool.input_schema, tool.output_schema or {}):
                jsonschema_rs.meta.validate({"$schema": MODERN, **schema})
