"""What several checks expect of answers, and read from definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.conformance.http import Answer
from gateway.conformance.rest.server import RestServer


async def any_tool(server: RestServer) -> str:
    """The id of any listed tool."""
    return str((await server.some_tool(lambda it: True, "is there"))["id"])


def refused(server: RestServer, answer: Answer, status: int) -> None:
    answer.must(answer.status == status, f"Status {status}.")
    answer.must(isinstance(answer.member("message"), str), "A text in `message`.")
    if server.form.is_flat:
        versioned(answer)


def versioned(answer: Answer) -> None:
    answer.must(answer.headers.get("oxp-version", "") != "", "A header OXP-Version.")


def is_meant(definition: Mapping[str, Any], tool: str) -> bool:
    id_ = str(definition.get("id"))
    return id_ == tool or id_.partition("@")[0] == tool


def required(server: RestServer, definition: Mapping[str, Any]) -> list[str]:
    schema = server.form.input_schema(definition)
    found = schema.get("required") if isinstance(schema, dict) else None
    return found if isinstance(found, list) else []


def typed(server: RestServer, definition: Mapping[str, Any]) -> list[str]:
    """The arguments of a definition that take one simple type."""
    schema = server.form.input_schema(definition)
    members = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict):
        return []
    simple = ("string", "number", "integer", "boolean")
    return [name for name, it in members.items() if isinstance(it, dict) and it.get("type") in simple]
