"""The official tests of JSON Schema (github.com/json-schema-org/JSON-Schema-Test-Suite), fetched by `make test`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.model import Json

FOLDER = Path(__file__).parents[2] / ".venvs" / "json-schema-suite" / "json" / "tests"
DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": None}


def files() -> Iterator[tuple[str, str]]:
    """Draft and path of each file of cases; nothing where the suite was not fetched."""
    for draft in DRAFTS:
        for file in sorted((FOLDER / draft).rglob("*.json")):
            yield draft, file.relative_to(FOLDER / draft).as_posix()


def groups(draft: str, file: str) -> list[dict[str, Any]]:
    """Schemas with values that fit or do not; each schema names its draft, as those of that time do."""
    read: list[dict[str, Any]] = json.loads((FOLDER / draft / file).read_text())
    return [group | {"schema": with_draft(group["schema"], draft)} for group in read]


def with_draft(schema: Json, draft: str) -> Json:
    named = DRAFTS[draft]
    return {"$schema": named, **schema} if named and isinstance(schema, dict) else schema


def check_fetched() -> None:
    if not FOLDER.is_dir():
        pytest.fail("The tests of JSON Schema are missing; `make interop` fetches them.", pytrace=False)
