"""The spans of one request while it is under way, and the one that the present task works in.

They are kept here until they end, and are then handed to the SDK (`export`): so a request that is not sampled costs
next to nothing, and what tool servers are sent of a span is known before it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from gateway.core.errors import GatewayError
from gateway.core.tracing import Kind, Parent

Value = str | int | float | bool

SAMPLED = 0x01
MAX_SPANS = 128  # of one request; a batch may hold hundreds of calls


class Span:
    """A piece of work, from `begun_ns` to `ended_ns` by the clock of the system; 0: it has not ended.

    `parent` is the id of a span, here or at who sent the request. `error` is a word for what went wrong, `links` are
    spans of other traces, each as a `traceparent`.
    """

    __slots__ = ("attributes", "begun_ns", "ended_ns", "error", "id", "kind", "links", "name", "parent", "recording")

    def __init__(self, recording: Recording, name: str, kind: Kind, parent: bytes | None) -> None:
        self.recording = recording
        self.name = name
        self.kind: Kind = kind
        self.id = next(recording.digits)[:16]
        self.parent = parent
        self.attributes: dict[str, Value] = {}
        self.links: list[str] = []
        self.error = ""
        self.begun_ns, self.ended_ns = recording.now_ns(), 0

    @property
    def traceparent(self) -> bytes:
        """What a tool server is sent, so that its spans are children of this one."""
        return b"00-%b-%b-%02x" % (self.recording.trace, self.id, self.recording.flags)

    def end(self, error: str = "") -> None:
        """Ends it now."""
        self.error = error or self.error
        self.ended_ns = self.recording.now_ns()
        self.recording.ended(self)


Sink = Callable[[Span], None]  # takes each span once it has ended

current: ContextVar[Span | None] = ContextVar("span", default=None)


class Recording:
    """The spans of one request, below its `root`.

    They are given to `sink` when the root ends, and later ones as they end. It is over once nothing of it is open: work
    in the background that was begun for the request, and goes on for others, is no part of it.
    """

    __slots__ = (
        "_count",
        "_offset_ns",
        "_open",
        "_sink",
        "_waiting",
        "digits",
        "flags",
        "is_asked",
        "outer",
        "root",
        "state",
        "trace",
    )

    def __init__(
        self,
        sink: Sink,
        digits: Iterator[bytes],
        trace: bytes,
        *,
        name: str,
        parent: Parent | None = None,
        state: bytes | None = None,
        outer: Recording | None = None,
        is_asked: bool = False,
    ) -> None:
        """`parent` is who sent the request, `outer` the recording of the request that brought this one.

        `is_asked`: it is recorded only because who sent the request asks for that.
        """
        self._sink = sink
        self._offset_ns = time.time_ns() - time.monotonic_ns()  # one clock for all, which is never set back
        self._waiting: list[Span] | None = []
        self._open = self._count = 1
        self.digits = digits
        self.trace = trace
        self.flags = SAMPLED if parent is None else parent.flags | SAMPLED
        self.state = state
        self.outer = outer
        self.is_asked = is_asked
        self.root = Span(self, name, "server", None if parent is None else parent.span)

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._offset_ns

    @property
    def is_over(self) -> bool:
        return self._open == 0

    def begin(self, name: str, parent: Span, kind: Kind = "internal") -> Span | None:
        """Begins a span; None for one too many."""
        if self._count >= MAX_SPANS:
            return None
        self._open += 1
        self._count += 1
        return Span(self, name, kind, parent.id)

    def discard(self) -> None:
        """Gives no span to the sink."""
        self._sink = _discard

    def ended(self, span: Span) -> None:
        """Takes a span that has ended."""
        self._open -= 1
        if self._waiting is None:
            self._sink(span)
            return
        self._waiting.append(span)
        if span is self.root:
            waiting, self._waiting = self._waiting, None
            for span_before in waiting:
                self._sink(span_before)


def _discard(span: Span) -> None:
    pass


def here() -> Span | None:
    """The span that the present task works in; None where nothing is recorded."""
    span = current.get()
    return None if span is None or span.recording.is_over else span


@contextmanager
def within(parent: Span, name: str, attributes: Mapping[str, Value] = {}, kind: Kind = "internal") -> Iterator[Span]:
    """Records a piece of work as a child of `parent`; what is raised is its error, and an error may be set."""
    span = parent.recording.begin(name, parent, kind)
    if span is None:
        yield parent
        return
    span.attributes.update(attributes)
    try:
        yield span
    except BaseException as exc:
        span.end(error_of(exc))
        raise
    span.end()


def error_of(exc: BaseException) -> str:
    """A word for what was raised: the code of a refusal, else the name of its class."""
    return str(exc.code) if isinstance(exc, GatewayError) else type(exc).__name__
