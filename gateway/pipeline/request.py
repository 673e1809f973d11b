"""One request of a caller's: what came, what is known of it so far, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gateway.catalogue.published import PublishedTool
from gateway.core import jsontext
from gateway.core.encoders import Encoder
from gateway.core.errors import ErrorCode, GatewayError, NotJsonError
from gateway.core.model import Json, Progress, ToolResult
from gateway.core.ports import Caller, Operation, ServerRequest
from gateway.core.surfaces import Surface
from gateway.core.tracing import UNTRACED, Trace
from gateway.core.wire import Head, Headers

# Must not be repeated: a head with two of these means two things to two readers.
SINGLE = (
    b"authorization",
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"host",
    b"origin",
    b"oxp-version",
    b"oxp-api-key",
    b"otc-api-key",
)
LISTS = (b"prefer", b"if-none-match")  # several lines of them are one list (RFC 9110, section 5.3)


UNKNOWN_CALLER = Caller(principal="")


class Request(Struct, eq=False):
    """Filled in step by step: one that ends early is answered, counted and logged as far as it came."""

    # Who brings it says these: the edge, or the batch that it is part of.
    head: Head
    surface: Surface
    ip: str = ""  # the caller's address
    trace: Trace = UNTRACED
    operation: Operation = "call"  # its endpoint's, until it is opened
    needs_document: bool = True  # as in its endpoint
    server_request: ServerRequest | None = None  # None behind any server but ours
    started: float = 0.0  # by `time.perf_counter`
    is_part: bool = False  # it came in another one, whose bytes are counted
    report: Callable[[Progress], None] | None = None  # takes how far its call has come, where that can be sent

    # The pipeline finds these out, in this order.
    caller: Caller = UNKNOWN_CALLER
    bytes_in: int = 0  # of its body
    encoder: Encoder | None = None  # once it is opened
    call_id: str | None = None  # that its caller gave its call, or asks about
    tool: PublishedTool | None = None
    parts: tuple[tuple[Request, int], ...] = ()  # the requests that came in this one, with their statuses

    # How it ended, by the pipeline and its responses.
    outcome: str = "refused"  # or ok, tool_error, invalid, accepted, timeout, unknown
    refusal: GatewayError | None = None
    failed_result: ToolResult | None = None  # the failure that its answer reports
    extra: Headers = ()  # of the answer besides its encoder's: how the caller's limits stand, the id of the call
    toolgate_call_id: str = ""  # that the answer names its call by
    tool_s: float = 0.0  # spent waiting for a tool server
    joined: bool = False  # nothing was run for it: its call was another's already, or over, or refused
    counts: bool = True  # its outcome is counted as that of a run, or of a refusal; else the run is, when it ends

    # Those who answer in the pipeline's place say these.
    reason: str = ""  # a word for why: the server has answered, a callback or a login was refused
    backend: str = ""  # that a callback is from
    is_cancelled: bool = False  # an operator has ended it: its task is cancelled, and its caller is to be answered


def read_repeats(head: Head, scope: Mapping[str, Any]) -> Head:
    """The head with the lines of each header that is a list in one, of all others the last.

    Raises INVALID_REQUEST for a header that must not be repeated and is.
    """
    if len(head.headers) == len(scope["headers"]):
        return head
    lines: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        lines.setdefault(name, []).append(value)
    for name in SINGLE:
        if len(lines.get(name, ())) > 1:
            raise GatewayError(ErrorCode.INVALID_REQUEST, f"The header {name.decode()} is repeated.")
    joined = {name: b", ".join(lines[name]) for name in LISTS if name in lines}
    return replace(head, headers={**head.headers, **joined}, lines=tuple(scope["headers"]))


def read_document(body: bytes, *, is_needed: bool) -> Json:
    """The JSON value that a body is; None for one that cannot be read and is not needed. Raises NotJsonError."""
    try:
        return jsontext.decode(body) if body or is_needed else None
    except jsontext.JsonError as exc:
        if is_needed:
            raise NotJsonError(str(exc)) from exc
        return None


def forwarded_headers(head: Head, allowed: tuple[bytes, ...]) -> Headers:
    """The caller's headers that a route passes on; one that is repeated, line by line (RFC 9110, section 5.3).

    What `Connection` names is for this connection and goes no further (section 7.6.1).
    """
    if b"connection" in head.headers:
        lines = head.lines or ((b"connection", head.headers[b"connection"]),)
        listed = b",".join([value for name, value in lines if name == b"connection"]).lower().split(b",")
        kept_here = {name.strip(b" \t") for name in listed}
        allowed = tuple(name for name in allowed if name not in kept_here)
    if head.lines:
        return tuple((name, value) for name in allowed for line, value in head.lines if line == name)
    return tuple((name, head.headers[name]) for name in allowed if name in head.headers)
