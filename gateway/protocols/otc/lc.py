"""The LangChain family's form of OTC (universal-tool-server and -client, langchain-tool-server).

Requests are enveloped as in OTC; answers are flat and always hold `value`; a list is a bare array. No specification
describes it; this is what running programs do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Json, JsonObject, ToolCall, ToolRef, ToolResult
from gateway.core.tool_names import full_version
from gateway.core.wire import Answer, WireReply
from gateway.protocols.common import fields, replies
from gateway.protocols.otc import dialect as rest

# These callers name a tool by its id or, as their adapters do, by its name; `@1.2` counts as 1.2.0.
NAMED_TOOL = re.compile(r"([A-Za-z0-9_-]{1,64}|[A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,20}(?:\.[0-9]{1,20}){0,2}))?")


class Lc(rest.RestDialect):
    """The LangChain family; tolerant of members that only these callers send."""

    name = "lc"
    canonical = rest.OTC_SCHEMA
    wire_versions = rest.OTC_URLS | {rest.OTC_SCHEMA, rest.OXP_SCHEMA}
    call_paths = ("/tools/call",)
    tool_error_statuses = (500,)  # these servers say `success: false` so

    def decode_call(self, document: JsonObject) -> ToolCall:
        raw = fields.object_(document.get("request"), "request")
        request = {key: value for key, value in raw.items() if value is not None}
        return fields.call_of(request, self._tool_ref(request.get("tool_id")))

    def _tool_ref(self, wire_id: Json) -> ToolRef:
        short = isinstance(wire_id, str) and len(wire_id) <= fields.MAX_TOOL_ID
        match = NAMED_TOOL.fullmatch(wire_id) if short else None
        if match is None:
            raise fields.invalid("The tool_id is neither a tool's id nor its name.")
        tool, version = match.groups()
        return ToolRef(tool=tool, version=version and full_version(version), by_name="." not in tool)

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        # These callers index `value` whatever happened, and their servers never send `duration`.
        body = {"value": None} | fields.result_object(result, call_id)
        body.pop("duration", None)
        return fields.ok(encode(body), result.failure)

    def encode_error(self, error: GatewayError) -> WireReply:
        return fields.error_reply(error, (("detail", error.message),))

    @staticmethod
    def decode_reply(reply: Answer, invocation: Invocation, document: Json = None) -> ToolResult:
        """As in every dialect, but a success may hold a challenge. Raises MISSING_REQUIREMENTS for that, too."""
        result = replies.decode_reply(reply, invocation, document)
        if (challenge := replies.in_band_challenge(result.value)) is not None:
            raise challenge
        return result

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        return b"[%b]" % b",".join(tools)
