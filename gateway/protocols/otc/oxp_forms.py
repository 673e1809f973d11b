"""Calls of OXP servers whose list shows neither of the two forms: by their answers the form shows.

Both forms list their tools as `{"items"}`. Flat OXP has its version in a header, and the enveloped form in a member of
the list, but many a server leaves out either.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.model import Invocation, Json, JsonObject, ToolResult
from gateway.core.ports import CallCodec, DispatchGate, ServerDialect
from gateway.core.wire import Answer
from gateway.protocols.common import replies
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc import surface as otc_surface

log = logging.getLogger("gateway.backends")

Call = Callable[[CallCodec, Invocation, DispatchGate | None], Awaitable[ToolResult]]
REFUSED = (400, 404, 422)  # by either form of the protocol: nothing has run
MEMBERS = frozenset({"$schema", "request", "tool_id", "call_id", "input", "context", "trace_id"})  # of a call
MAX_LOOKED_AT = 64 * 1024  # bytes of an answer


class FormAttempt:
    """A call in one form, as its codec; and what the answer shows.

    `spoken` is the form that the server speaks, once that is sure; `is_refused`: it may not have understood this one.
    """

    def __init__(self, form: ServerDialect) -> None:
        self.form = form
        self.call_paths = form.call_paths
        self.tool_error_statuses = form.tool_error_statuses
        self.request_call = form.request_call
        self.reading = form.reading
        self.spoken: ServerDialect | None = None
        self.is_refused = False

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads a reply; raises as `CallCodec.decode_reply`."""
        shown = document if isinstance(document, dict) else _document(reply)
        if reply.header(rest.HEADER) is not None:
            self.spoken = otc_surface.OXP
        elif len(reply.body) > MAX_LOOKED_AT or _is_understood(shown):  # no complaint about a form is so long
            self.spoken = self.form
        self.is_refused = reply.status in REFUSED and self.spoken is not self.form
        result = self.form.decode_reply(reply, invocation, document)
        # A failure in the other form's shape may say that there is no such tool, for want of its id.
        if self.spoken is None and (
            result.failure is None or ("result" in shown) == (self.form is otc_surface.OXP_ENV)
        ):
            self.spoken = self.form
        return result


def _document(reply: Answer) -> JsonObject:
    """The body of an answer; empty if it is no JSON object, or too long."""
    if len(reply.body) > MAX_LOOKED_AT:
        return {}
    try:
        document = jsontext.decode(replies.strip_bom(reply.body), replies.MAX_DEPTH)
    except jsontext.JsonError:
        return {}
    return document if isinstance(document, dict) else {}


def _is_understood(document: JsonObject) -> bool:
    """Whether a refusal is about the tool or its input, and so not about the form of the call."""
    errors = document.get("parameter_errors")
    return "missing_requirements" in document or (isinstance(errors, dict) and not errors.keys() <= MEMBERS)


class OxpForms:
    """Finds out which form a server speaks. `spoken` is that form, None until it is sure."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next: ServerDialect = otc_surface.OXP_ENV
        self.spoken: ServerDialect | None = None

    async def call(self, send: Call, invocation: Invocation, gate: DispatchGate | None) -> ToolResult:
        """Sends a call in one form, and in the other if it was refused, which says that nothing has run.

        After any other failure the next call is sent in the other form. Raises as `HttpExchange.call`.
        """
        begun, attempt = monotonic(), FormAttempt(self._next)
        first: ToolResult | GatewayError
        try:
            first = await send(attempt, invocation, gate)
        except GatewayError as refusal:
            if not attempt.is_refused:
                raise
            first = refusal
        finally:
            self._learn(attempt)
        if not attempt.is_refused:
            assert isinstance(first, ToolResult)
            return first
        other = FormAttempt(self._next)
        left_s = max(invocation.timeout_s - (monotonic() - begun), 0.001)
        try:
            second = await send(other, replace(invocation, timeout_s=left_s), gate)
            if not other.is_refused:
                return second
        except GatewayError:
            if other.spoken is not None:
                raise
        finally:
            self._learn(other)
        if isinstance(first, GatewayError):
            raise first
        return first

    def _learn(self, attempt: FormAttempt) -> None:
        if attempt.spoken is not None:
            if self.spoken is not attempt.spoken:
                log.info(
                    "a call has shown which form of OXP a tool server speaks",
                    extra={"backend": self._name, "dialect": attempt.spoken.name},
                )
            self.spoken = self._next = attempt.spoken
        elif self._next is attempt.form:
            self._next = otc_surface.OXP if attempt.form is otc_surface.OXP_ENV else otc_surface.OXP_ENV
