"""Request ids and trace contexts: `X-Request-ID`, and W3C Trace Context (Level 2, 23 November 2021 on).

Both are taken from the caller if they are valid, made otherwise, and sent on to the tool server. The `trace_id` in the
body of a call is something else and stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from gateway.core.wire import Headers

REQUEST_ID, TRACEPARENT, TRACESTATE = b"x-request-id", b"traceparent", b"tracestate"

# Characters; what has to be passed on at least (Trace Context, 3.3.1.5), and a head has its limits.
MAX_TRACESTATE = 512
# We sample nothing, but with 00 a tool server that follows its parent, which is OpenTelemetry's default, would stop
# tracing as soon as a gateway stands in front of it.
NEW_FLAGS = b"-01"
KNOWN_FLAGS = 0x03  # sampled, random; all others are to be sent as zero (3.2.2.5)

# Nothing that could forge a line of a log, end a header or mean something in a query.
_request_id = re.compile(rb"[A-Za-z0-9._~:/+=@-]{1,128}").fullmatch
_traceparent = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch
_tracestate = re.compile(rb"[\x20-\x7e\t]{1,%d}" % MAX_TRACESTATE).fullmatch
NO_TRACE, NO_SPAN = b"0" * 32, b"0" * 16

Work = TypeVar("Work", bound=Callable[..., Any])
Kind = Literal["internal", "server", "client", "consumer"]  # of a span


class Step(Protocol):
    """Makes a function a step of requests: where spans are recorded, one of that name is recorded for each run."""

    def __call__(self, name: str, work: Work, kind: Kind = "internal") -> Work: ...


def unrecorded(name: str, work: Work, kind: Kind = "internal") -> Work:
    """The `Step` of a gateway that records nothing: the function itself, which costs a call nothing."""
    return work


class Trace(Struct, frozen=True):
    """Which trace a request belongs to."""

    request_id: bytes
    sent: Headers  # for a tool server; the first of them, `X-Request-ID`, is for the answer, too
    stored: str = ""  # the `traceparent` that is stored with a call, for later links to it; empty: nothing is recorded

    def link(self, stored: str) -> None:
        """Links the request to another one by its `stored`, where spans are recorded."""


class Parent(NamedTuple):
    """The parts of a valid `traceparent`: the trace and the span in hexadecimal digits, and the flags that we know."""

    trace: bytes
    span: bytes
    flags: int


UNTRACED = Trace(b"", ())  # of requests that are not logged


def random_digits() -> Iterator[bytes]:
    """Makes 48 random hexadecimal digits at a time.

    Randomness is fetched for many at once: a system call for each costs more than the rest of making it.
    """
    while True:
        digits = os.urandom(24 * 256).hex().encode()
        for start in range(0, len(digits), 48):
            yield digits[start : start + 48]


def sent_id(headers: Mapping[bytes, bytes]) -> bytes:
    """The request id that a caller has sent, if it is valid; else empty."""
    sent = headers.get(REQUEST_ID, b"")
    return sent if _request_id(sent) else b""


def made_id() -> bytes:
    """A random request id, for one request."""
    return os.urandom(16).hex().encode()


def identify(digits: Iterator[bytes], headers: Mapping[bytes, bytes], new_flags: bytes = NEW_FLAGS) -> Trace:
    """The trace of a request by its headers, in less than a microsecond. Header names are lower case.

    Where both are made, the request id is the trace id, so that either leads to the other. `new_flags` are those of a
    trace that begins here.
    """
    new_digits, request_id, parent = next(digits), headers.get(REQUEST_ID), headers.get(TRACEPARENT)
    if request_id is None or _request_id(request_id) is None:
        request_id = new_digits[:32]
    context = None if parent is None else parent_of(parent)
    if context is None:  # as of nearly every agent: the trace begins here
        ours = b"00-%b-%b%b" % (new_digits[:32], new_digits[32:], new_flags)
        return Trace(request_id, ((REQUEST_ID, request_id), (TRACEPARENT, ours)))
    return Trace(request_id, sent_on(request_id, context, new_digits[32:], headers.get(TRACESTATE)))


def continue_trace(trace: Trace, parent: bytes, state: bytes | None) -> Trace:
    """The trace of a request that names its parent elsewhere than in its headers; as it was if that is none."""
    context = parent_of(parent)
    if context is None:
        return trace
    return Trace(trace.request_id, sent_on(trace.request_id, context, trace.sent[1][1][36:52], state))


def sent_on(request_id: bytes, parent: Parent, span: bytes, state: bytes | None) -> Headers:
    """What a tool server is sent of the trace of this parent, in which `span` is ours."""
    ours = b"00-%b-%b-%02x" % (parent.trace, span, parent.flags)
    if state is None or _tracestate(state) is None:
        return (REQUEST_ID, request_id), (TRACEPARENT, ours)
    return (REQUEST_ID, request_id), (TRACEPARENT, ours), (TRACESTATE, state)


def parent_of(sent: bytes) -> Parent | None:
    """Reads a `traceparent`; None if it is not valid.

    A later version may add fields at the end, and is sent on as ours (3.2.4, Versioning).
    """
    match = _traceparent(sent)
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    if (more is not None if version == b"00" else version == b"ff") or trace == NO_TRACE or span == NO_SPAN:
        return None
    return Parent(trace, span, int(flags, 16) & KNOWN_FLAGS)
