"""Settings of the surface for callers that speak MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from gateway.configfile.sections import Section, setting
from gateway.configfile.values import AnyText, Choice, Duration, Flag, Integer, Text

Schemas = Literal["compatible", "exact"]
Versions = Literal["newest", "all"]

McpPath = Annotated[
    str, Text(r"(/[A-Za-z0-9_-]{1,64}){1,4}", "must be a path of letters, digits, _ and -, such as /mcp")
]


class ListenSettings(Section):
    """Streams on which callers hear that the list of tools has changed."""

    max: Annotated[int, Integer(0, 100_000)] = setting(1000, "How many streams may be open; 0 offers none.")
    max_per_caller: Annotated[int, Integer(1, 100_000)] = setting(16, "How many streams one caller may have open.")


class McpSettings(Section):
    """The endpoint for callers that speak MCP (Model Context Protocol)."""

    enabled: Flag = setting(True, "Whether there is such an endpoint.")
    path: McpPath = setting(
        "/mcp", "The path of the endpoint. Below it, /mcp/Toolkit has only the tools of that toolkit."
    )
    instructions: AnyText | None = setting(
        None, "What models are told about all tools together. It stands before what toolkits say of themselves."
    )
    schemas: Choice[Schemas] = setting(
        "compatible",
        "How input schemas are listed: without what large clients refuse at the root of a schema (`compatible`), "
        "or complete (`exact`). Calls are always checked against the complete ones.",
    )
    versions: Choice[Versions] = setting(
        "newest",
        "Which versions of a tool are listed: only the newest that the caller may use, or all of them. With "
        "`all`, each older version has a name of its own.",
    )
    max_name: Annotated[int, Integer(24, 64)] = setting(
        64, "The longest name of a tool, in characters. It applies to lists of OTC and OXP, too."
    )
    stream_after_s: Annotated[float, Duration("100ms", "1m")] = setting(
        "10s",
        "The time after which an answer becomes a stream of events, so that callers hear that the tool is still "
        "running.",
    )
    task_after_s: Annotated[float, Duration("100ms", "1h")] = setting(
        "10s",
        "The time after which a call becomes a task, whose result the caller asks for later. This needs a caller "
        "that accepts tasks, and a state section.",
    )
    listen: ListenSettings = setting({}, "Streams that announce changes of the list of tools.")
