"""Open eXecution Protocol 1.0 in its two wire forms, towards callers and towards tool servers."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.dialects import definitions, fields, servers, versions
from gateway.dialects.enveloped import Enveloped
from gateway.dialects.replies import CallReplies
from gateway.dialects.rest import RestDialect
from gateway.errors import GatewayError
from gateway.jsontext import encode
from gateway.model import Invocation, Json, ToolCall, ToolDefinition, ToolResult
from gateway.wire import Head, WireReply, WireRequest

VERSION_HEADER = (versions.HEADER, versions.HEADER_VERSION.encode("ascii"))
CALL_HEADERS = (*servers.CALL_HEADERS, VERSION_HEADER)


class OxpEnveloped(Enveloped):
    """The enveloped form, which both official clients speak."""

    name = "oxp-env"
    canonical = versions.OXP_SCHEMA
    wire_versions = frozenset({versions.OXP_SCHEMA}) | versions.OTC_URLS
    list_member = "items"

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        return encode(definitions.bare_definition(tool))


class OxpFlat(RestDialect, CallReplies):
    """The flat form: bare bodies, the version in the `OXP-Version` header of every request and answer."""

    name = "oxp"
    canonical = versions.HEADER_VERSION
    wire_versions = frozenset(version.decode("ascii") for version in versions.HEADER_VERSIONS)
    call_paths = ("/tools/call", "/call")

    def __init__(self, wire_version: str | None = None) -> None:
        super().__init__(wire_version)
        self.headers = ((versions.HEADER, self.wire_version.encode("ascii")),)

    def negotiate(self, head: Head, document: Json) -> str:
        if head.method != "POST":  # a list may name the standard in its body, too; to a call that is an unknown member
            versions.of_schema(document, self.canonical, versions.SCHEMAS)
        return versions.of_header(head)

    def decode_call(self, document: Json) -> ToolCall:
        request = fields.closed(fields.object_(document, "The body"))
        return fields.call_of(request, fields.tool_ref(request.get("tool_id")))

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        return fields.ok(encode(fields.result_object(result, call_id)), result.failure, self.headers)

    def encode_error(self, error: GatewayError) -> WireReply:
        return fields.error_reply(error, (), self.headers)

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        return encode(definitions.bare_definition(tool))

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        return b'{"items":[%b]}' % b",".join(tools)

    def request_call(self, invocation: Invocation) -> WireRequest:
        body = encode(servers.request_object(invocation))
        return servers.post(self.call_paths[0], body, CALL_HEADERS)

    def request_list(self) -> WireRequest:
        return servers.get("/tools", (VERSION_HEADER,))
