"""Calls of operations with the credentials they take: the codec of a document, and what only its backend knows."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from gateway.core.model import Invocation, Json, ToolResult
from gateway.core.ports import LargeReply
from gateway.core.wire import Answer, Headers, WireReply, WireRequest
from gateway.net.client import Reply, TransportError
from gateway.protocols.openapi.credentials import OpenApiCredentials, masked
from gateway.protocols.openapi.document.answers import in_utf8
from gateway.protocols.openapi.document.codec import OpenApiCodec, plan_of

GONE = (404, 410)
CREATED = (201, 202)  # answers whose Location is shown
MAY_BE_DONE = (
    "The service did not find it. An earlier request of this call lost its connection and may have deleted it."
)


class Deletion(WireRequest, frozen=True, kw_only=True):
    """A request that is answered otherwise once it was done. `broken_off` are its sendings without an answer."""

    broken_off: list[TransportError]


class SecondReply(Reply, frozen=True):
    """The reply to a request that may have been done before."""


class OpenApiCalls(OpenApiCodec):
    """The codec of one backend's calls."""

    def __init__(self, credentials: OpenApiCredentials, origins: Sequence[str], backend: str = "") -> None:
        super().__init__(origins)
        self._credentials = credentials
        self._mismatches = MismatchWarnings(backend)

    def request_call(self, invocation: Invocation) -> WireRequest:
        """Makes the request of a call, with all credentials but our own headers. Raises GatewayError."""
        request = super().request_call(invocation)
        request = self._credentials.apply(request, invocation, plan_of(invocation).access)
        if request.method == b"DELETE" and invocation.idempotent:
            method, path, headers, body = request.method, request.path, request.headers, request.body
            return Deletion(method=method, path=path, headers=headers, body=body, broken_off=[])
        return request

    def in_query(self, invocation: Invocation) -> Sequence[str]:
        """The credentials in the query of a call."""
        return self._credentials.in_query(invocation, plan_of(invocation).access)

    def reading(self, reply: Answer, invocation: Invocation) -> LargeReply | None:
        """As `CallCodec.reading`."""
        return super().reading(self._masked(reply, invocation), invocation)

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads an answer; raises as `CallCodec.decode_reply`."""
        self._mismatches.note(reply.status, invocation.tool.id)
        result = super().decode_reply(self._masked(reply, invocation), invocation, document)
        if isinstance(reply, SecondReply) and reply.status in GONE and result.failure is not None:
            return ToolResult(failure=replace(result.failure, message=MAY_BE_DONE, outcome="unknown"))
        return result

    def _masked(self, reply: Answer, invocation: Invocation) -> Answer:
        """A reply without what of our own credentials the service repeats in it, as in links to itself."""
        plan, status = plan_of(invocation), reply.status
        is_success, reply = status < 300, in_utf8(reply)
        if is_success:
            body = masked(reply.body, self._credentials.long_secrets(invocation, plan.access))
            if status not in CREATED and plan.method != "HEAD" and not plan.answers.headers:
                return reply if body is reply.body else WireReply(status=status, headers=reply.headers, body=body)
        secrets = self._credentials.secrets(invocation, plan.access)
        headers: Headers = tuple((name, masked(value, secrets)) for name, value in reply.headers)
        return WireReply(status=status, headers=headers, body=body if is_success else masked(reply.body, secrets))


log = logging.getLogger("gateway.backends")

MISMATCHES = frozenset((405, 406, 415, 501))  # the API does not know the operation as the document describes it
MANY = 20  # answers of 404 without any other in between, to different tools
MAX_WARNED = 1000  # tools that have a warning each; the set of them must not fill the memory


class MismatchWarnings:
    """Those of one backend. `note` is given the status of every answer and the tool."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._told: set[str] = set()
        self._missing: list[str] | None = []  # None: told

    def note(self, status: int, tool: str) -> None:
        if status == 404:
            self._miss(tool)
        elif self._missing:
            self._missing.clear()
        elif self._missing is None and status < 300:
            self._missing = []
        if status in MISMATCHES and tool not in self._told and len(self._told) < MAX_WARNED:
            self._told.add(tool)
            extra = {"backend": self._backend, "tool": tool, "status": status}
            log.warning("an API does not know an operation as its document describes it", extra=extra)

    def _miss(self, tool: str) -> None:
        if self._missing is None:
            return
        self._missing.append(tool)
        if len(self._missing) > MANY and len(set(self._missing)) > 1:
            self._missing = None
            log.warning("an API answers every call with 404: its url may be wrong", extra={"backend": self._backend})
        elif len(self._missing) > MANY:
            self._missing.pop(0)
