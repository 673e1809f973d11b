"""The enveloped form and what the dialects of OTC and OXP share: wire versions, lists that are revalidated.

No draft was ever frozen, so versions are exact strings; a near miss is refused (OTC 1.0 and OXP 1.0, Versioning).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from typing import ClassVar

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Json, JsonObject, ToolCall, ToolDefinition, ToolResult
from gateway.core.ports import LargeReply
from gateway.core.wire import Answer, Head, Headers, JoinedList, WireReply, WireRequest
from gateway.protocols.common import definitions, fields
from gateway.protocols.common.replies import decode_reply, reading

RFC_SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC_SCHEMA = "otc://1.0"
OXP_SCHEMA = "urn:oxp:1.0"
OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
OTC_URL_DRAFT = "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json"
OTC_URLS = frozenset({OTC_URL, OTC_URL_DRAFT})  # OXP's own pages still print the first

HEADER = b"oxp-version"
HEADER_VERSION = "1.0"
# The prose demands a semantic version, which `1.0`, the one in every example, is not.
HEADER_VERSIONS = frozenset({b"1.0", b"1.0.0", b"1"})

MIN_GZIP_BYTES = 1024  # below, a packet carries either
GZIP_LEVEL = 6

# The answer depends on these; on a bare path the dialect itself is read off two of them.
VARY_BARE = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version, User-Agent")
VARY_PREFIXED = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version")
PRIVATE = (b"cache-control", b"private, no-cache")


class RestDialect:
    """One dialect in one wire version, made once for each; a `ListEncoder` and a `ServerDialect`.

    Here it is the enveloped form: `{$schema, request}` in, `{$schema, result}` out. `headers` are on every answer.
    """

    name: ClassVar[str]
    canonical: ClassVar[str]  # the version as the dialect itself writes it
    wire_versions: ClassVar[frozenset[str]]  # all that are accepted
    revision: ClassVar[str] = ""
    list_member: ClassVar[str] = "tools"
    call_paths: ClassVar[tuple[str, ...]] = ("/tools/call", "/call")  # of the text; the examples print the other
    tool_error_statuses: ClassVar[tuple[int, ...]] = ()
    decode_reply = staticmethod(decode_reply)

    def __init__(self, wire_version: str | None = None) -> None:
        self.wire_version = self.canonical if wire_version is None else wire_version
        self.definition_form, self.list_form = self.name, f"{self.name} {self.wire_version}"
        self.headers: Headers = ()

    def negotiate(self, head: Head, document: Json) -> str:
        """Reads the version that the caller speaks. Raises INVALID_REQUEST for one that is not accepted."""
        if HEADER in head.headers:
            header_version(head)
        return schema_version(document, self.canonical, self.wire_versions)

    def decode_call(self, document: JsonObject) -> ToolCall:
        """Reads a call. Raises INVALID_REQUEST."""
        request = fields.reject_unknown_members(fields.object_(document.get("request"), "request"))
        return fields.call_of(request, fields.tool_ref(request.get("tool_id")))

    def reading(self, reply: Answer, invocation: Invocation) -> LargeReply | None:
        return reading(reply, b"value")

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        body = {"$schema": self.wire_version, "result": fields.result_object(result, call_id)}
        return fields.ok(encode(body), result.failure)

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        reply = self.encode_result(result, call_id)
        return WireReply(status=202, headers=reply.headers, body=reply.body)

    def encode_error(self, error: GatewayError) -> WireReply:
        return fields.error_reply(error, (("$schema", self.wire_version),))

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        """Encodes a tool whose `input_schema` is the JSON Schema itself."""
        return encode(definitions.definition_object(tool, tool.input_schema | definitions.x_otc(tool)))

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        """The body of a catalogue from tools already encoded."""
        return b'{"$schema":%b,"%b":[%b]}' % (encode(self.wire_version), self.list_member.encode(), b",".join(tools))

    def join(self, tools: Sequence[bytes]) -> JoinedList:
        body = self.list_body(tools)
        gzipped = gzip.compress(body, GZIP_LEVEL, mtime=0) if len(body) >= MIN_GZIP_BYTES else None
        return JoinedList(body=body, gzipped=gzipped, etag=hashlib.sha256(body).hexdigest()[:32].encode())

    def encode_list(self, joined: JoinedList, head: Head) -> WireReply:
        """The list, or 304 when the caller has it already (RFC 9110, 13.1.2)."""
        vary = VARY_BARE if head.dialect is None else VARY_PREFIXED
        body, etag = joined.body, b'"%b"' % joined.etag
        encoding: Headers = ()
        if joined.gzipped is not None and _accepts_gzip(head.headers.get(b"accept-encoding", b"")):
            body, etag, encoding = joined.gzipped, b'"%b-gzip"' % joined.etag, ((b"content-encoding", b"gzip"),)
        headers: Headers = ((b"etag", etag), PRIVATE, vary, *self.headers)
        if _matches(head.headers.get(b"if-none-match", b""), joined.etag):
            return WireReply(status=304, headers=headers)
        return WireReply(status=200, headers=(fields.JSON_TYPE, *encoding, *headers), body=body)

    def request_call(self, invocation: Invocation) -> WireRequest:
        body = encode({"$schema": self.canonical, "request": fields.request_object(invocation)})
        return fields.post(self.call_paths[0], body)

    def request_list(self) -> WireRequest:
        return fields.get("/tools")


def schema_version(document: Json, canonical: str, accepted: frozenset[str]) -> str:
    """The `$schema` of a body; the canonical one when absent. Raises INVALID_REQUEST for one that is not accepted."""
    schema = document.get("$schema", canonical) if isinstance(document, dict) else canonical
    if not isinstance(schema, str) or schema not in accepted:
        raise fields.invalid("The requested version of the standard is not supported.")
    return schema


def header_version(head: Head) -> str:
    """The `OXP-Version` of a head; `1.0` when absent. Raises INVALID_REQUEST for one that is not accepted."""
    version = head.headers.get(HEADER)
    if version is None:
        return HEADER_VERSION
    if version not in HEADER_VERSIONS:
        raise fields.invalid("The requested OXP-Version is not supported.")
    return version.decode("ascii")


def _accepts_gzip(accepted: bytes) -> bool:
    """Whether `gzip` has a quality above zero; `*` speaks for it only when it is not named (RFC 9110, 12.5.3)."""
    acceptable = {}
    for coding in accepted.lower().split(b","):
        name, _, parameters = coding.partition(b";")
        quality = parameters.strip().removeprefix(b"q=").strip()
        acceptable[name.strip()] = not quality or quality.strip(b"0.") != b""
    return acceptable.get(b"gzip", acceptable.get(b"*", False))


def _matches(if_none_match: bytes, etag: bytes) -> bool:
    """Weak comparison; our two encodings of one list count as the same."""
    tags = (tag.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip") for tag in if_none_match.split(b","))
    return any(tag in (etag, b"*") for tag in tags)
