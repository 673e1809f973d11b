"""Schemas of objects, to be compiled."""

from __future__ import annotations

from typing import Any

from gateway.schemas import CompiledSchema, by_parameter

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


def errors(schema: CompiledSchema | dict[str, Any], arguments: Any) -> dict[str, str]:
    """What is wrong with arguments, by parameter."""
    compiled = schema if isinstance(schema, CompiledSchema) else CompiledSchema.compile(schema)
    return by_parameter(compiled.findings(arguments))


def errors_now(compiled: CompiledSchema, arguments: Any, size: int) -> dict[str, str] | None:
    """The same, where that cannot hold up the event loop; else None."""
    found = compiled.findings_now(arguments, size)
    return None if found is None else by_parameter(found)


def violation(compiled: CompiledSchema, value: Any) -> str | None:
    """The first thing that is wrong with a value."""
    found = compiled.findings(value)
    return found[0].sentence if found else None
