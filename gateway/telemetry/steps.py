"""Records what a gateway does for a request: each step, each run of a tool, each wait for a turn, what the state does.

A function is wrapped once, when the gateway is put together. It records a span if the present task works for a request
that is recorded, and else is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from inspect import iscoroutine
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from gateway.calls.records import metadata_of
from gateway.core.model import CallKey, Invocation, ToolResult
from gateway.core.ports import Backend, DispatchGate, Outcomes
from gateway.core.tracing import TRACEPARENT, Kind, Work
from gateway.state.port import State
from gateway.telemetry import names
from gateway.telemetry.spans import Span, Value, current, error_of, here, within
from gateway.upstream.admission import Admission, Lease
from gateway.upstream.replica_url import Server

T = TypeVar("T")
STATE_OPERATIONS = ("begin", "advance", "settle", "get", "has_expired", "wait", "forget", "mark_delivered")


def recorded(name: str, work: Work, kind: Kind = "internal", attributes: Mapping[str, Value] = {}) -> Work:
    """The `Step` that records. What is no coroutine and returns False has done nothing, and leaves no span."""

    def step(*arguments: Any, **named: Any) -> Any:
        if current.get() is None or (span := here()) is None:
            return work(*arguments, **named)
        begun_ns, error = span.recording.now_ns(), ""
        try:
            result = work(*arguments, **named)
        except BaseException as exc:
            result, error = None, error_of(exc)
            raise
        finally:
            is_done = not iscoroutine(result) and result is not False
            if is_done and (own := span.recording.begin(name, span, kind)) is not None:
                own.begun_ns = begun_ns
                own.end(error)
        return result if is_done or result is False else _awaited(result, span, name, kind, attributes)

    return cast(Work, step)


async def _awaited(
    work: Coroutine[Any, Any, T], span: Span, name: str, kind: Kind, attributes: Mapping[str, Value]
) -> T:
    with within(span, name, attributes, kind):
        return await work


class RecordedAdmission(Admission[Server]):
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


@lru_cache(maxsize=1024)
def _address(url: str) -> Mapping[str, Value]:
    """Where a replica is, without its path: that may hold a key."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return {names.SERVER_ADDRESS: parts.hostname or "", names.SERVER_PORT: parts.port or default}


class _Recorded:
    """Stands for a part some of whose methods record; all else is the part's own."""

    def __init__(self, part: object, methods: Mapping[str, Callable[..., Any]]) -> None:
        self._part = part
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recorded) and other._part is self._part

    def __hash__(self) -> int:
        return hash(self._part)


def state_with_steps(state: State, attributes: Mapping[str, Value]) -> State:
    """The state as calls use it: each operation is a step, whatever keeps the calls."""
    kind: Kind = "client" if names.DB_SYSTEM in attributes else "internal"
    methods = {
        operation: recorded(
            f"state {operation}", getattr(state, operation), kind, {**attributes, names.DB_OPERATION: operation}
        )
        for operation in STATE_OPERATIONS
    }
    return cast(State, _Recorded(state, methods))


def backend_with_runs(backend: Backend, protocol: str) -> Backend:
    """The backend as calls use it: each run of a tool is a span, from which the tool server continues the trace."""
    attributes = names.of_backend(backend.name, protocol)
    run: Callable[..., Coroutine[Any, Any, Any]] = backend.dispatch if backend.deferred else backend.call

    def recorded_run(invocation: Invocation, *more: Any) -> Coroutine[Any, Any, Any]:
        span = here()
        own = None if span is None else span.recording.begin(names.of_tool(invocation.tool), span, "client")
        if own is None:
            return run(invocation, *more)
        own.attributes |= attributes | names.of_invocation(invocation)
        headers = tuple((name, own.traceparent if name == TRACEPARENT else value) for name, value in invocation.headers)
        return _run(own, run(replace(invocation, headers=headers), *more))

    return cast(Backend, _Recorded(backend, {"dispatch" if backend.deferred else "call": recorded_run}))


async def _run(own: Span, run: Coroutine[Any, Any, ToolResult | None]) -> ToolResult | None:
    token = current.set(own)
    try:
        result = await run
    except BaseException as exc:
        own.end(error_of(exc))
        raise
    finally:
        current.reset(token)
    own.end("" if result is None or result.failure is None else result.failure.public_code)
    return result


def outcomes_with_traces(outcomes: Outcomes, held: Callable[[str], Any], begin: Callable[[str, str], Span]) -> Outcomes:
    """Where outcomes go that come without a request of their own: each is a trace, linked to its call.

    `held` finds the record of a call, `begin` begins such a trace.
    """

    def linked(work: Callable[..., Coroutine[Any, Any, bool]]) -> Callable[..., Coroutine[Any, Any, bool]]:
        async def take(key: CallKey, outcome: Any) -> bool:
            record = held(key)
            origin = metadata_of(record).trace if record is not None and record.note else ""
            span = begin(origin, names.OUTCOME) if origin else None
            token = current.set(span)  # what the present task was begun for has nothing to do with this call
            try:
                return await work(key, outcome)
            finally:
                current.reset(token)
                if span is not None:
                    span.end()

        return take

    methods = {"settle": linked(outcomes.settle), "challenge": linked(outcomes.challenge)}
    return cast(Outcomes, _Recorded(outcomes, methods))
