"""Settings of servers of breadcrumbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from gateway.configfile.sections import ByOnlyKey, setting
from gateway.configfile.values import Choice, Flag, Text, Uuid
from gateway.upstream.settings import (
    BackendSettings,
    BearerAuthSettings,
    SingleBackendSettings,
)

RequestSchema = Literal["tool_request", "agent_response"]


class RcrtBackendSettings(SingleBackendSettings):
    """A server of RCRT (Right Context, Right Time), where tools answer breadcrumbs with breadcrumbs."""

    protocol: Choice[Literal["rcrt"]] = setting(..., "Breadcrumbs (RCRT).")
    owner_id: Uuid = setting(..., "The tenant of the workspace: OWNER_ID of the server.")
    agent_id: Uuid = setting(..., "The id of the gateway as an agent. No agent of the server may have it.")
    workspace: Annotated[str, Text("[!-~]{1,256}", "must be 1 to 256 characters without spaces")] = setting(
        "workspace:tools", "The tag of the workspace."
    )
    request_schema: Choice[RequestSchema] = setting(
        "tool_request",
        "The kind of breadcrumb that requests a call: `tool.request.v1`, or `agent.response.v1` for servers that "
        "turn it into requests.",
    )
    return_to_llm: Flag = setting(True, "The value of `return_to_llm` in requests.")
    cleanup: Flag = setting(False, "Whether requests and responses are deleted after they were read.")
    auth: Annotated[BearerAuthSettings, ByOnlyKey()] | None = setting(
        None, "A token for the server. By default, the gateway takes tokens that the server itself issues."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from BackendSettings.problems(self)
        if "forward_headers" in self.model_fields_set:
            yield "forward_headers", "has no effect; breadcrumbs carry no headers"
