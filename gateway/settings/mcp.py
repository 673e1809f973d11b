"""Settings of the surface for callers that speak MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from gateway.settings.sections import Section, setting
from gateway.settings.values import AnyText, Choice, Duration, Flag, Integer, Text

Schemas = Literal["compatible", "exact"]
Versions = Literal["newest", "all"]

McpPath = Annotated[
    str, Text(r"(/[A-Za-z0-9_-]{1,64}){1,4}", "must be a path of letters, digits, _ and -, such as /mcp")
]


class ListenSettings(Section):
    """Open streams on which callers hear that the list of tools has changed."""

    max: Annotated[int, Integer(0, 100_000)] = setting(1000, "How many there may be; 0: none are offered.")
    max_per_caller: Annotated[int, Integer(1, 100_000)] = setting(16, "How many one caller may have.")


class McpSettings(Section):
    """The endpoint for callers that speak MCP (Model Context Protocol)."""

    enabled: Flag = setting(True, "Whether there is one.")
    path: McpPath = setting("/mcp", "Its path; below it, /mcp/Toolkit has the tools of one toolkit alone.")
    instructions: AnyText | None = setting(
        None, "What models are told about all tools together, before what toolkits say of themselves."
    )
    schemas: Choice[Schemas] = setting(
        "compatible",
        "How input schemas are listed: without what large clients refuse at the root of a schema, or exact. Calls are "
        "checked against the exact ones.",
    )
    versions: Choice[Versions] = setting(
        "newest",
        "Which versions of a tool are listed: the newest that the caller may use, or all, each older one under a name "
        "of its own.",
    )
    max_name: Annotated[int, Integer(24, 64)] = setting(
        64, "How long the names of tools may be, in characters; also in lists of OTC and OXP."
    )
    stream_after_s: Annotated[float, Duration("100ms", "1m")] = setting(
        "10s", "After how long an answer becomes a stream of events, so that callers hear that the tool still runs."
    )
    listen: ListenSettings = setting({}, "Streams that announce changes of the list of tools.")
