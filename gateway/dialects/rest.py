"""What the dialects of OTC and OXP have in common towards callers: wire versions, statuses, lists that are revalidated.

An instance of a dialect is bound to one wire version; there is one for each that is accepted, made once.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from typing import ClassVar

from gateway.dialects.fields import JSON_TYPE
from gateway.errors import GatewayError
from gateway.model import Json, ToolCall, ToolDefinition, ToolResult
from gateway.wire import Head, Headers, JoinedList, WireReply

MIN_GZIP_BYTES = 1024  # below, a packet carries either
GZIP_LEVEL = 6

# The answer depends on these; on a bare path the dialect itself is read off two of them.
VARY_BARE = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version, User-Agent")
VARY_PREFIXED = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version")
PRIVATE = (b"cache-control", b"private, no-cache")


class RestDialect:
    """One dialect in one wire version: the `ListEncoder` of its answers, and the decoder of its calls.

    `headers` are on every answer.
    """

    name: ClassVar[str]
    canonical: ClassVar[str]  # the version as the dialect itself writes it
    wire_versions: ClassVar[frozenset[str]]  # all that are accepted

    def __init__(self, wire_version: str | None = None) -> None:
        self.wire_version = self.canonical if wire_version is None else wire_version
        self.headers: Headers = ()

    def negotiate(self, head: Head, document: Json) -> str:
        """Reads the version that the caller speaks. Raises INVALID_REQUEST for one that is not accepted."""
        raise NotImplementedError

    def decode_call(self, document: Json) -> ToolCall:
        """Reads a call. Raises INVALID_REQUEST."""
        raise NotImplementedError

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        raise NotImplementedError

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        reply = self.encode_result(result, call_id)
        return WireReply(status=202, headers=reply.headers, body=reply.body)

    def encode_error(self, error: GatewayError) -> WireReply:
        raise NotImplementedError

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        raise NotImplementedError

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        """The body of a catalogue from tools already encoded."""
        raise NotImplementedError

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
        return WireReply(status=200, headers=(JSON_TYPE, *encoding, *headers), body=body)


def _accepts_gzip(accepted: bytes) -> bool:
    """Whether `gzip` has a quality above zero; `*` speaks for it only when it is not named (RFC 9110, 12.5.3)."""
    wanted = {}
    for coding in accepted.lower().split(b","):
        name, _, parameters = coding.partition(b";")
        quality = parameters.strip().removeprefix(b"q=").strip()
        wanted[name.strip()] = not quality or quality.strip(b"0.") != b""
    return wanted.get(b"gzip", wanted.get(b"*", False))


def _matches(if_none_match: bytes, etag: bytes) -> bool:
    """Weak comparison; our two encodings of one list count as the same."""
    for candidate in if_none_match.split(b","):
        tag = candidate.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip")
        if tag in (etag, b"*"):
            return True
    return False
