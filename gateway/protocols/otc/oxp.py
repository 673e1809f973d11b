"""Open eXecution Protocol 1.0 in its two wire forms, towards callers and towards tool servers."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Json, JsonObject, ToolCall, ToolResult
from gateway.core.wire import Head, WireReply, WireRequest
from gateway.protocols.common import fields
from gateway.protocols.otc import dialect as rest

VERSION_HEADER = (rest.HEADER, rest.HEADER_VERSION.encode("ascii"))
CALL_HEADERS = (*fields.CALL_HEADERS, VERSION_HEADER)
SCHEMAS = rest.OTC_URLS | {rest.RFC_SCHEMA, rest.OTC_SCHEMA, rest.OXP_SCHEMA}


class OxpEnveloped(rest.RestDialect):
    """The enveloped form, which both official clients speak."""

    name = "oxp-env"
    canonical = rest.OXP_SCHEMA
    wire_versions = rest.OTC_URLS | {rest.OXP_SCHEMA}
    list_member = "items"


class OxpFlat(rest.RestDialect):
    """The flat form: bare bodies, the version in the `OXP-Version` header of every request and answer."""

    name = "oxp"
    canonical = rest.HEADER_VERSION
    wire_versions = frozenset(version.decode("ascii") for version in rest.HEADER_VERSIONS)

    def __init__(self, wire_version: str | None = None) -> None:
        super().__init__(wire_version)
        self.headers = ((rest.HEADER, self.wire_version.encode("ascii")),)

    def negotiate(self, head: Head, document: Json) -> str:
        if head.method != "POST":  # a list may name the standard in its body, too; to a call that is an unknown member
            rest.schema_version(document, rest.OXP_SCHEMA, SCHEMAS)
        return rest.header_version(head)

    def decode_call(self, document: JsonObject) -> ToolCall:
        return fields.call_of(fields.reject_unknown_members(document), fields.tool_ref(document.get("tool_id")))

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        return fields.ok(encode(fields.result_object(result, call_id)), result.failure, self.headers)

    def encode_error(self, error: GatewayError) -> WireReply:
        return fields.error_reply(error, (), self.headers)

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        return b'{"items":[%b]}' % b",".join(tools)

    def request_call(self, invocation: Invocation) -> WireRequest:
        body = encode(fields.request_object(invocation))
        return fields.post(self.call_paths[0], body, CALL_HEADERS)

    def request_list(self) -> WireRequest:
        return fields.get("/tools", (VERSION_HEADER,))
