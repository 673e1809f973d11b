"""Published tools without a catalogue, for tests of what is done with them."""

from __future__ import annotations

from typing import Any, Literal

from gateway.model import Invocation, Listing, Requirements, ToolDefinition, ToolResult
from gateway.routing import PublishedTool, Route
from gateway.schemas import compile_input

ANYTHING = compile_input({})


class Unasked:
    """A backend that is never asked."""

    name = "unasked"
    dialect = "otc"
    deferred: Literal[False] = False

    async def call(self, invocation: Invocation, gate: object = None) -> ToolResult:
        raise AssertionError

    async def list_tools(self) -> Listing:
        raise AssertionError

    async def challenge_status(self, check_url: str) -> str:
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError


def published(
    tool_id: str = "Geo.Find@1.0.0",
    requires: Requirements = Requirements(),  # noqa: B008 - frozen
    *,
    description: str = "",
    withheld: frozenset[str] = frozenset(),
    **route: Any,
) -> PublishedTool:
    """A tool under a route of its own; further arguments are the route's."""
    tool, _, version = tool_id.partition("@")
    definition = ToolDefinition(
        tool=tool,
        version=version,
        name=tool.replace(".", "_"),
        description=description,
        input_schema={},
        output_schema={},
        remote_id=tool_id,
        requires=requires,
    )
    fields: dict[str, Any] = {"tools": "*", "backend_name": "unasked", "backend": Unasked(), "timeout_s": 30.0}
    return PublishedTool.publish(definition, Route(**fields | route), ANYTHING, withheld)
