"""The parts of a gateway with a recorder around each: authentication, limits, checks, queues, tool servers, state.

Each works as the part itself, and records a span if the present task works for a request that is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from gateway.admission import Admission, DispatchGate, Lease
from gateway.backends.server import Server
from gateway.calls.records import metadata_of
from gateway.calls.status import PREFIX, CallView
from gateway.checks import Checks
from gateway.model import Arguments, Invocation, JsonObject, ToolCall, ToolResult
from gateway.ports import Authenticator, Authorizer, Backend, Caller, Limiter, Operation, Outcomes, Target
from gateway.published import PublishedTool
from gateway.request import Request
from gateway.responses import ResponseBuilder
from gateway.state.port import State
from gateway.telemetry import names
from gateway.telemetry.recorder import recording_of
from gateway.telemetry.spans import Kind, Span, Value, current, error_of, here, within
from gateway.tracing import TRACEPARENT
from gateway.wire import Head, Headers, WireReply

T = TypeVar("T")
STATE_OPERATIONS = ("begin", "advance", "settle", "get", "has_expired", "wait", "forget", "mark_delivered")


class TracedAuthenticator:
    """Records `authenticate`; twice where a key had to be waited for."""

    def __init__(self, inner: Authenticator) -> None:
        self._inner = inner
        self.start = inner.start

    def identify(self, head: Head) -> Caller:
        if (span := current.get()) is None:
            return self._inner.identify(head)
        with within(span, names.AUTHENTICATE):
            return self._inner.identify(head)

    def identify_later(self, head: Head) -> Coroutine[Any, Any, Caller]:
        return _timed(self._inner.identify_later(head), names.AUTHENTICATE)


class TracedLimiter:
    """Records `limit`, the second phase: the first only looks at what this process has counted."""

    def __init__(self, inner: Limiter) -> None:
        self._inner = inner
        self.admit = inner.admit
        self.admit_as = inner.admit_as
        self.verification_failed = inner.verification_failed

    def spend(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Coroutine[Any, Any, Headers]:
        return _timed(self._inner.spend(operation, caller, ip, target), names.LIMIT)


class TracedAuthorizer:
    """Records `authorize`: what the operator's own service decides."""

    def __init__(self, inner: Authorizer) -> None:
        self._inner = inner

    def authorize(self, call: ToolCall, target: Target, caller: Caller, dialect: str) -> Coroutine[Any, Any, None]:
        return _timed(self._inner.authorize(call, target, caller, dialect), names.AUTHORIZE, kind="client")


class TracedChecks(Checks):
    """Records `validate`, of the input."""

    def accepts(self, tool: PublishedTool, arguments: Arguments, size: int) -> bool:
        if (span := current.get()) is None:
            return tool.schema.accepts(arguments, size)
        begun_ns = span.recording.now_ns()
        is_accepted = super().accepts(tool, arguments, size)
        if is_accepted:  # else `validate` comes next
            with within(span, names.VALIDATE) as own:
                own.begun_ns = begun_ns
        return is_accepted

    def validate(
        self, tool: PublishedTool, arguments: Arguments, size: int, principal: str
    ) -> Coroutine[Any, Any, Arguments]:
        return _timed(super().validate(tool, arguments, size, principal), names.VALIDATE)


class TracedAdmission(Admission[Server]):
    """Records `queue` beside the span of the tool server, which begins when the call's turn has come."""

    async def wait(
        self, tool: str, timeout_s: float, gate: DispatchGate | None = None, conversation: str = ""
    ) -> Lease[Server]:
        span = here()
        if span is None:
            return await super().wait(tool, timeout_s, gate, conversation)
        with within(span, names.QUEUE) as queued:
            queued.parent = span.parent
            lease = await super().wait(tool, timeout_s, gate, conversation)
        span.begun_ns = queued.ended_ns
        return lease

    def leave(self, lease: Lease[Server]) -> None:
        if (span := current.get()) is not None and span.kind == "client":
            span.attributes.update(_address(lease.replica.target.url))
        Admission.leave(self, lease)  # `super` would cost every call more than the rest of this


class TracedBackend:
    """A backend as calls see it. Records `execute_tool` and continues the trace from there."""

    def __init__(self, inner: Backend, protocol: str) -> None:
        self._inner = inner
        self._attributes = names.of_backend(inner.name, protocol)
        self.name = inner.name
        self.deferred = inner.deferred

    @classmethod
    def around(cls, inner: Backend, protocol: str) -> Backend:
        """The backend, as which this answers."""
        return cast(Backend, cls(inner, protocol))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedBackend) and other._inner is self._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        inner = self._inner
        assert not inner.deferred
        if (span := here()) is None:
            return inner.call(invocation, gate)
        return self._traced(span, invocation, lambda onward: inner.call(onward, gate))

    def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> Coroutine[Any, Any, ToolResult | None]:
        inner = self._inner
        assert inner.deferred
        if (span := here()) is None:
            return inner.dispatch(invocation, callback_url, gate)
        return self._traced(span, invocation, lambda onward: inner.dispatch(onward, callback_url, gate))

    async def _traced(
        self, span: Span, invocation: Invocation, send: Callable[[Invocation], Coroutine[Any, Any, T]]
    ) -> T:
        own = span.recording.begin(names.of_tool(invocation.tool), span, "client")
        if own is None:
            return await send(invocation)
        own.attributes |= self._attributes | names.of_invocation(invocation)
        headers = tuple((name, own.traceparent if name == TRACEPARENT else value) for name, value in invocation.headers)
        token = current.set(own)
        try:
            result = await send(replace(invocation, headers=headers))
        except BaseException as exc:
            own.end(error_of(exc))
            raise
        finally:
            current.reset(token)
        failure = result.failure if isinstance(result, ToolResult) else None
        own.end("" if failure is None else failure.word)
        return result


class TracedState:
    """Records what calls ask of the state, whatever keeps it."""

    def __init__(self, inner: State, attributes: Mapping[str, Value]) -> None:
        self._inner = inner
        self._kind: Kind = "client" if names.DB_SYSTEM in attributes else "internal"
        for operation in STATE_OPERATIONS:
            about = {**attributes, names.DB_OPERATION: operation}
            setattr(self, operation, self._traced(getattr(inner, operation), f"state {operation}", about))

    @classmethod
    def around(cls, inner: State, attributes: Mapping[str, Value]) -> State:
        """The state, as which this answers."""
        return cast(State, cls(inner, attributes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _traced(
        self, operation: Callable[..., Coroutine[Any, Any, T]], name: str, attributes: Mapping[str, Value]
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        return lambda *arguments, **named: _timed(operation(*arguments, **named), name, attributes, self._kind)


class TracedOutcomes:
    """Where a tool server's outcomes go that come without a request of its own: each is a trace, linked to its call."""

    def __init__(self, inner: Outcomes, held: Callable[[str], Any], begin: Callable[[str, str], Span]) -> None:
        self._inner = inner
        self._held = held
        self._begin = begin
        self.is_open = inner.is_open
        self.has_ended_with = inner.has_ended_with

    def settle(self, call_id: str, result: ToolResult) -> Coroutine[Any, Any, bool]:
        return self._linked(call_id, self._inner.settle(call_id, result))

    def challenge(self, call_id: str, challenge: JsonObject) -> Coroutine[Any, Any, bool]:
        return self._linked(call_id, self._inner.challenge(call_id, challenge))

    async def _linked(self, call_id: str, taking: Coroutine[Any, Any, bool]) -> bool:
        record = self._held(call_id.removeprefix(PREFIX))
        kept = metadata_of(record).trace if record is not None and record.note else ""
        span = self._begin(kept, names.OUTCOME) if kept else None
        token = current.set(span)  # what the present task was begun for has nothing to do with this call
        try:
            return await taking
        finally:
            current.reset(token)
            if span is not None:
                span.end()


class TracedResponses(ResponseBuilder):
    """Links a request to the trace of the kept call that it is about, if another request began that."""

    async def kept(self, kept: CallView, request: Request, *, accepted: bool) -> WireReply:
        recording, trace = recording_of(request.trace), kept.metadata.trace
        if recording is not None and trace and trace != request.trace.kept:
            recording.root.links.append(trace)
        return await super().kept(kept, request, accepted=accepted)


def _timed(
    work: Coroutine[Any, Any, T], name: str, attributes: Mapping[str, Value] = {}, kind: Kind = "internal"
) -> Coroutine[Any, Any, T]:
    """The work, recorded if anything is: else not even a frame is added to it."""
    span = here()
    return work if span is None else _recorded(work, span, name, attributes, kind)


async def _recorded(
    work: Coroutine[Any, Any, T], span: Span, name: str, attributes: Mapping[str, Value], kind: Kind
) -> T:
    with within(span, name, attributes, kind):
        return await work


@lru_cache(maxsize=1024)
def _address(url: str) -> Mapping[str, Value]:
    """Where a replica is, without its path: that may hold a key."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return {names.SERVER_ADDRESS: parts.hostname or "", names.SERVER_PORT: parts.port or default}
