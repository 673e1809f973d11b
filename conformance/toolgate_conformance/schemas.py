"""JSON Schemas of programs under test: nothing that they refer to is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

DRAFTS = frozenset(
    {f"http://json-schema.org/draft-{number}/schema" for number in ("04", "06", "07")}
    | {f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")}
)


def is_schema(schema: Any) -> bool:
    """Whether a schema is valid in its draft; one of an unknown draft is left alone."""
    if not isinstance(schema, dict):
        return False
    draft = schema.get("$schema")
    if isinstance(draft, str) and draft.removesuffix("#") not in DRAFTS:
        return True
    return jsonschema_rs.meta.is_valid(schema)


def fits(schema: Mapping[str, Any], value: Any) -> bool | None:
    """Whether a value fits a schema; None if the schema cannot be used, as one that refers to another document."""
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse).is_valid(value)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None


def _refuse(uri: str) -> Any:
    """A document that a schema refers to may be anywhere, also on this machine. Raises ValueError."""
    raise ValueError(f"{uri} is not fetched")
