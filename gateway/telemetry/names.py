"""The names of spans and attributes.

OpenTelemetry's semantic conventions where they have one: HTTP (stable), and GenAI, MCP and databases (in development);
the others begin with `toolgate.`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.model import Invocation, ToolDefinition
from gateway.telemetry.spans import Value

QUEUE = "queue"
OUTCOME = "receive outcome"
EXECUTE = "execute_tool"
CALL_METHOD, LIST_METHOD = "tools/call", "tools/list"

METHOD, STATUS, ROUTE = "http.request.method", "http.response.status_code", "http.route"
SCHEME, PATH = "url.scheme", "url.path"
SERVER_ADDRESS, SERVER_PORT = "server.address", "server.port"
ERROR = "error.type"
DB_SYSTEM, DB_OPERATION = "db.system.name", "db.operation.name"
GENAI_OPERATION, TOOL_NAME, TOOL_CALL_ID = "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"
MCP_METHOD, MCP_VERSION = "mcp.method.name", "mcp.protocol.version"
BACKEND, PROTOCOL, TOOL_VERSION = "toolgate.backend", "toolgate.protocol", "toolgate.tool.version"
DIALECT, OPERATION, RESULT = "toolgate.dialect", "toolgate.operation", "toolgate.outcome"
TOOL_STATUS, TOOL_CODE, CODE = "toolgate.tool_status", "toolgate.tool_code", "toolgate.code"
DETAIL, MISSING_SCOPES, REPLAYED = "toolgate.detail", "toolgate.missing_scopes", "toolgate.replayed"
REQUEST_ID, CALL_ID, REASON = "toolgate.request_id", "toolgate.call_id", "toolgate.reason"

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
OTHER_METHOD = "_OTHER"


# As of `http.troubles.trouble_of`, by the names that its members have in the log.
_OF_TROUBLE = {
    name.partition(".")[2]: name for name in (TOOL_STATUS, TOOL_CODE, CODE, DETAIL, MISSING_SCOPES, REPLAYED)
}


def of_trouble(trouble: Mapping[str, Value]) -> dict[str, Value]:
    """Why a call failed or was refused, and whether it was run at all."""
    return {_OF_TROUBLE[name]: value for name, value in trouble.items()}


def of_tool(tool: ToolDefinition) -> str:
    """The name of the span of a tool's run."""
    return f"{EXECUTE} {tool.tool}"


def of_backend(name: str, protocol: str) -> dict[str, Value]:
    """What all runs at a backend have."""
    mcp: Mapping[str, Value] = {MCP_METHOD: CALL_METHOD} if protocol == "mcp" else {}
    return {GENAI_OPERATION: EXECUTE, BACKEND: name, PROTOCOL: protocol, **mcp}


def of_invocation(invocation: Invocation) -> dict[str, Value]:
    """What one run has. The call id is ours: the caller's own goes nowhere."""
    tool = invocation.tool
    return {TOOL_NAME: tool.tool, TOOL_VERSION: tool.version, TOOL_CALL_ID: invocation.call_id}


def of_state(is_shared: bool) -> dict[str, Value]:
    """What all operations of the state have."""
    return {DB_SYSTEM: "redis"} if is_shared else {}
