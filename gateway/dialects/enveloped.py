"""The enveloped form that most dialects vary: `{$schema, request}` in, `{$schema, result}` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from gateway.dialects import fields, servers, versions
from gateway.dialects.replies import CallReplies
from gateway.dialects.rest import RestDialect
from gateway.errors import GatewayError
from gateway.jsontext import encode
from gateway.model import Invocation, Json, ToolCall, ToolResult
from gateway.wire import Head, WireReply, WireRequest


class Enveloped(RestDialect, CallReplies):
    """Both roles of the form; a dialect names its versions, its list member and the way it lists a definition."""

    list_member: ClassVar[str] = "tools"
    call_paths: ClassVar[tuple[str, ...]] = ("/tools/call", "/call")  # of the text; the examples print the other

    def negotiate(self, head: Head, document: Json) -> str:
        versions.of_header(head)
        return versions.of_schema(document, self.canonical, self.wire_versions)

    def decode_call(self, document: Json) -> ToolCall:
        request = fields.closed(fields.enveloped(document))
        return fields.call_of(request, fields.tool_ref(request.get("tool_id")))

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        body = {"$schema": self.wire_version, "result": fields.result_object(result, call_id)}
        return fields.ok(encode(body), result.failure)

    def encode_error(self, error: GatewayError) -> WireReply:
        return fields.error_reply(error, (("$schema", self.wire_version),))

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        member = self.list_member.encode("ascii")
        return b'{"$schema":%b,"%b":[%b]}' % (encode(self.wire_version), member, b",".join(tools))

    def request_call(self, invocation: Invocation) -> WireRequest:
        body = encode({"$schema": self.canonical, "request": servers.request_object(invocation)})
        return servers.post(self.call_paths[0], body)

    def request_list(self) -> WireRequest:
        return servers.get("/tools")
