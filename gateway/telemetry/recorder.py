"""Which requests are recorded, and as part of which trace (W3C Trace Context).

A request follows its parent: it is recorded if that is sampled. Where a trace begins, its id decides, as the SDK's
`TraceIdRatioBased` does, so that every service with the same ratio records the same traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.core.tracing import TRACEPARENT, TRACESTATE, Parent, Trace, continue_trace, identify, parent_of, sent_on
from gateway.telemetry.spans import SAMPLED, Recording, Sink, Span, current

UNSAMPLED = b"-00"
ALL = b"g"  # above every hexadecimal digit
REQUEST = "request"  # the name of a span until its route is known


class RecordedTrace(Trace, frozen=True, kw_only=True):
    """The trace of a request whose spans are recorded."""

    recording: Recording

    def link(self, stored: str) -> None:
        self.recording.root.links.append(stored)


def bound_of(ratio: float) -> bytes:
    """What the last 16 digits of a trace id must be below: digits of one length compare as the numbers do."""
    bound = round(ratio * (1 << 64))
    return ALL if bound >= 1 << 64 else b"%016x" % bound


class Recorder:
    """Begins the recordings of requests; `sink` takes each span that has ended, `digits` are as in `identify`."""

    def __init__(self, ratio: float, sink: Sink, digits: Iterator[bytes]) -> None:
        self._bound = bound_of(ratio)
        self._sink = sink
        self._digits = digits

    def identify(self, headers: Mapping[bytes, bytes]) -> Trace:
        """As `tracing.identify`; begins to record if the request is sampled."""
        trace = identify(self._digits, headers, UNSAMPLED)
        sent = headers.get(TRACEPARENT)
        parent = None if sent is None else parent_of(sent)
        if trace.sent[1][1][19:35] >= self._bound if parent is None else not parent.flags & SAMPLED:
            current.set(None)  # the task may still know the request before, on the same connection
            return trace
        is_asked = parent is not None and next(self._digits)[:16] >= self._bound  # else it is ours by chance
        return self._recorded(trace, parent, headers.get(TRACESTATE), is_asked=is_asked)

    def continue_trace(self, trace: Trace, parent: bytes, state: bytes | None) -> Trace:
        """As `tracing.continued`: a recording of its own, linked to that of the request that brought the call."""
        parent_context, outer = parent_of(parent), recording_of(trace)
        if parent_context is None:
            return trace
        if not parent_context.flags & SAMPLED:
            current.set(None)
            onward = continue_trace(trace, parent, state)
            return onward if outer is None else RecordedTrace(onward.request_id, onward.sent, recording=outer)
        return self._recorded(trace, parent_context, state, outer)

    def link(self, trace: Trace, stored: str) -> Trace:
        """The trace of a request about a call that was recorded (`Trace.stored`), which is recorded for that, too."""
        recording = recording_of(trace)
        if recording is None:
            trace = self._recorded(trace, None, None)
            recording = trace.recording
        trace.link(stored)
        return trace

    def about(self, stored: str, name: str) -> Span:
        """Begins a trace of work that no request brings, linked to the call that it is about (`Trace.stored`)."""
        trace = next(self._digits)[:32]
        root = Recording(self._sink, self._digits, trace, name=name).root
        root.kind = "internal"
        root.links.append(stored)
        return root

    def _recorded(
        self,
        trace: Trace,
        parent: Parent | None,
        state: bytes | None,
        outer: Recording | None = None,
        *,
        is_asked: bool = False,
    ) -> RecordedTrace:
        id_ = trace.sent[1][1][3:35] if parent is None else parent.trace
        recording = Recording(
            self._sink, self._digits, id_, name=REQUEST, parent=parent, state=state, outer=outer, is_asked=is_asked
        )
        root = recording.root
        if outer is not None:
            root.links.append(outer.root.traceparent.decode())
        current.set(root)
        context = Parent(id_, root.id, recording.flags)
        sent = sent_on(trace.request_id, context, root.id, state)
        return RecordedTrace(trace.request_id, sent, root.traceparent.decode(), recording=recording)


def recording_of(trace: Trace) -> Recording | None:
    """The recording of a request by its trace."""
    return trace.recording if isinstance(trace, RecordedTrace) else None
