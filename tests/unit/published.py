"""Published tools without a catalogue, for tests of what is done with them."""

from __future__ import annotations

from typing import Any, Literal

from gateway.catalogue.published import PublishedTool, Route
from gateway.core.model import Invocation, JsonObject, Listing, Requirements, ToolDefinition, ToolResult
from gateway.core.tool_names import published_name
from gateway.schemas import CompiledSchema

ANYTHING = CompiledSchema.compile({})
ANY_OUTPUT: JsonObject = {}


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
    output_schema: JsonObject | None = ANY_OUTPUT,
    withheld: frozenset[str] = frozenset(),
    scopes: str = "",
    **route: Any,
) -> PublishedTool:
    """A tool under a route of its own; `scopes` are words, further arguments are the route's."""
    tool, _, version = tool_id.partition("@")
    definition = ToolDefinition(
        tool=tool,
        version=version,
        name=published_name(tool),
        description=description,
        input_schema={},
        output_schema=output_schema,
        remote_id=tool_id,
        requires=requires,
    )
    return PublishedTool.publish(definition, route_to(scopes=frozenset(scopes.split()), **route), ANYTHING, withheld)


def route_to(tools: str = "*", **settings: Any) -> Route:
    fields: dict[str, Any] = {"backend_name": "unasked", "backend": Unasked(), "timeout_s": 30.0}
    return Route(tools=tools, **fields | settings)
