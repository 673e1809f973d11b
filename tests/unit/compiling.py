"""Schemas of objects, to be compiled."""

from __future__ import annotations

from typing import Any

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}
