"""Ends the span of a request when it is answered, with all that is known of it by then."""

from __future__ import annotations

from gateway.core.errors import FixedError
from gateway.http.accesslog import AccessLog, Observer
from gateway.http.troubles import trouble_of
from gateway.metrics import Metrics
from gateway.pipeline.request import Request
from gateway.telemetry import names
from gateway.telemetry.recorder import recording_of
from gateway.telemetry.spans import Span, Value
from gateway.usage.recorder import CountCall

FAILED = 500  # from here on the answer is an error of the server's (HTTP spans, Status)
MCP = "mcp"
METHODS_OF_MCP = {"call": names.CALL_METHOD, "list": names.LIST_METHOD}


class TracedObserver(Observer):
    """An observer that also ends spans. Probes have none. `scheme` is what callers use.

    A request that asks to be recorded, as sampled by its parent, is so only if it is known who sent it.
    """

    def __init__(self, metrics: Metrics, access: AccessLog, count_call: CountCall, scheme: str) -> None:
        super().__init__(metrics, access, count_call)
        self._scheme = scheme

    def answered(
        self, request: Request, operation: str, route: str, status: int, duration_s: float, bytes_out: int
    ) -> None:
        Observer.answered(self, request, operation, route, status, duration_s, bytes_out)
        recording = recording_of(request.trace)
        if recording is None:
            return
        if recording.outer is not None:  # a call with a trace of its own, in a request of HTTP
            _end_message(recording.root, request, operation)
            recording = recording.outer
        if recording.is_asked and not (request.caller.principal or request.backend):
            recording.discard()  # a stranger asked for it
        if not recording.root.ended_ns:  # of requests that came in a batch, the batch's is ended once
            recording.root.attributes[names.SCHEME] = self._scheme
            _end_request(recording.root, request, operation, route, status)


def _end_request(span: Span, request: Request, operation: str, route: str, status: int) -> None:
    """Ends the span of a request of HTTP."""
    head = request.head
    method = head.method if head.method in names.METHODS else names.OTHER_METHOD
    span.name = f"{'HTTP' if method == names.OTHER_METHOD else method} {route}"
    span.attributes |= {
        names.METHOD: method,
        names.ROUTE: route,
        names.PATH: route,  # the template: paths may be credentials
        names.REQUEST_ID: request.trace.request_id.decode("ascii"),
        names.OPERATION: operation,
    }
    if status:
        span.attributes[names.STATUS] = status
    span.attributes |= _about(request, operation)
    error = str(status) if status >= FAILED else ""
    if error:
        span.attributes[names.ERROR] = error
    span.end(error)


def _end_message(span: Span, request: Request, operation: str) -> None:
    """Ends the span of a message of MCP that names its own parent."""
    about = _about(request, operation)
    method, tool = METHODS_OF_MCP.get(operation, operation), request.tool
    span.name = method if tool is None else f"{method} {tool.target.tool}"
    span.attributes |= about
    error = "" if request.outcome in ("ok", "accepted") else str(about.get(names.REASON, request.outcome))
    span.end(error)


def _about(request: Request, operation: str) -> dict[str, Value]:
    """What is known of a request and its call: not who the caller is, and no word of its own but the request id.

    No more than is needed to find it and to tell it from others: each attribute costs its sender some microseconds.
    """
    about: dict[str, Value] = {}
    encoder, tool = request.encoder, request.tool
    dialect = request.head.dialect if encoder is None else encoder.name
    if dialect is not None:
        about[names.DIALECT] = dialect
    if dialect == MCP and operation in METHODS_OF_MCP:
        about[names.MCP_METHOD] = METHODS_OF_MCP[operation]
        if operation == "call":
            about[names.GENAI_OPERATION] = names.EXECUTE
        if encoder is not None and encoder.revision:
            about[names.MCP_VERSION] = encoder.revision
    if operation == "call":
        about[names.RESULT] = request.outcome
    if tool is not None:
        about |= {names.TOOL_NAME: tool.target.tool, names.BACKEND: tool.target.backend}
    elif request.backend:
        about[names.BACKEND] = request.backend
    if request.toolgate_call_id:
        about[names.CALL_ID] = request.toolgate_call_id
    if reason := _reason(request):
        about[names.REASON] = reason
    return about | names.of_trouble(trouble_of(request))


def _reason(request: Request) -> str:
    """The word for why a request was refused, as in its line of the log."""
    refused = request.refusal
    if refused is None:
        return request.reason
    return refused.reason if isinstance(refused, FixedError) else str(refused.code)
