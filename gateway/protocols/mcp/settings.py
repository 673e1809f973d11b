"""Settings of the surface for callers that speak MCP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from gateway.configfile.sections import ByOnlyKey, Items, Section, setting
from gateway.configfile.values import AnyText, Choice, Duration, Flag, Integer, Text
from gateway.configfile.web import QueriedUrl
from gateway.upstream.settings import (
    BearerAuthSettings,
    HeaderAuthSettings,
    JwtAuthSettings,
    OAuthAuthSettings,
    ReplicatedBackendSettings,
    too_many_replicas,
)

Schemas = Literal["compatible", "exact"]
Versions = Literal["newest", "all"]

McpPath = Annotated[
    str, Text(r"(/[A-Za-z0-9_-]{1,64}){1,4}", "must be a path of letters, digits, _ and -, such as /mcp")
]
McpEra = Literal["auto", "modern", "legacy"]
McpSessions = Literal["principal", "shared"]


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


class McpBackendSettings(ReplicatedBackendSettings):
    """A tool server that speaks MCP (Model Context Protocol) over streamable HTTP."""

    protocol: Choice[Literal["mcp"]] = setting(..., "Model Context Protocol.")
    # It has no header for keys.
    auth: (
        Annotated[BearerAuthSettings | HeaderAuthSettings | JwtAuthSettings | OAuthAuthSettings, ByOnlyKey()] | None
    ) = setting(None, "How the gateway proves to the tool server who it is.")
    url: QueriedUrl | None = setting(
        None, "The whole URL of the MCP server, with its path, and its query if it wants one."
    )
    urls: Annotated[tuple[QueriedUrl, ...], Items(too_many_replicas, at_least=1)] | None = setting(
        None, "The URLs of all replicas of the MCP server, in place of `url`."
    )
    era: Choice[McpEra] = setting(
        "auto",
        "Whether the server has sessions that begin with `initialize` (`legacy`, revisions up to 2025-11-25) or "
        "not (`modern`). `auto` asks the server.",
    )
    sessions: Choice[McpSessions] = setting(
        "principal",
        "Who shares a session of a legacy server: each user of each caller has its own (`principal`), or all share one "
        "(`shared`).",
    )
    json_text: Flag = setting(
        False, "Whether a result of one text that is a JSON object or array becomes that object or array."
    )
    trust_meta: Flag = setting(
        False,
        "Whether the server is another Toolgate that may say more than MCP has words for: ids and requirements of "
        "tools, and what may be repeated and when. It also gets the user, and the tokens and secrets that its "
        "tools need.",
    )
    trust_annotations: Flag = setting(
        False,
        "Whether tools that the server calls read-only or idempotent may run twice for one call, as with "
        "`idempotent` of a route.",
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        for name in self.forward_headers:
            if name.startswith("mcp-") or name == "last-event-id":
                yield (
                    "forward_headers",
                    f"must not list {name}: it is between the caller and the gateway",
                )
