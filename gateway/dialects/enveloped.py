"""The enveloped form that most dialects vary: `{$schema, request}` in, `{$schema, result}` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from gateway.dialects import fields, servers, versions
from gateway.dialects.replies import CallReplies
from gateway.errors import GatewayError
from gateway.jsontext import encode
from gateway.model import Invocation, Json, ToolCall, ToolResult
from gateway.wire import Head, Headers, WireReply, WireRequest


class Enveloped(CallReplies):
    """Both roles of the form; a dialect names its version, its list member and the way it lists a definition."""

    canonical: ClassVar[str]
    spellings: ClassVar[frozenset[str]]
    list_member: ClassVar[str] = "tools"
    call_paths: ClassVar[tuple[str, ...]] = ("/tools/call", "/call")  # of the text; the examples print the other

    def negotiate(self, head: Head, document: Json) -> str:
        versions.of_header(head)
        return versions.of_schema(document, self.canonical, self.spellings)

    def decode_call(self, document: Json) -> ToolCall:
        request = fields.closed(fields.enveloped(document))
        return fields.call_of(request, fields.tool_ref(request.get("tool_id")))

    def encode_result(self, result: ToolResult, call_id: str, spelling: str) -> WireReply:
        body = {"$schema": spelling, "result": fields.result_object(result, call_id)}
        return fields.ok(encode(body), result.failure)

    def encode_error(self, error: GatewayError, spelling: str) -> WireReply:
        return fields.error_reply(error, (("$schema", spelling),))

    def encode_list(self, tools: Sequence[bytes], spelling: str) -> bytes:
        member = self.list_member.encode("ascii")
        return b'{"$schema":%b,"%b":[%b]}' % (encode(spelling), member, b",".join(tools))

    def answer_headers(self, spelling: str) -> Headers:
        return ()

    def request_call(self, invocation: Invocation) -> WireRequest:
        body = encode({"$schema": self.canonical, "request": servers.request_object(invocation)})
        return servers.post(self.call_paths[0], body)

    def request_list(self) -> WireRequest:
        return servers.get("/tools")
