"""Schemas of programs under test: judged, and never followed to other documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolgate_conformance.schemas import fits, is_schema


@pytest.mark.parametrize(
    ("schema", "is_good"),
    [
        ({"type": "object"}, True),
        ({"type": "nothing"}, False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}, True),
        ({"$schema": "urn:unknown", "type": "nothing"}, True),
        ("object", False),
        (None, False),
    ],
)
def test_a_schema_is_valid_in_its_draft(schema: Any, is_good: bool) -> None:
    assert is_schema(schema) is is_good


def test_a_value_fits_or_does_not() -> None:
    assert fits({"type": "number"}, 3) is True
    assert fits({"$defs": {"a": {"type": "number"}}, "$ref": "#/$defs/a"}, "3") is False


@pytest.mark.parametrize("scheme", ["file://", "http://127.0.0.1:9"])
def test_a_schema_that_refers_elsewhere_is_not_followed(tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "any.json"
    file.write_text("{}")
    assert fits({"$ref": f"{scheme}{file}"}, 3) is None
