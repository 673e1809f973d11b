"""Hands ended spans to the official SDK, which sends them by OTLP over HTTP from a thread of its own.

Nothing waits for that: a span that finds `MAX_WAITING` before it is dropped and counted. Only a gateway that is to send
spans imports this module, because the SDK is an extra.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import requests
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from gateway import __version__
from gateway.configfile.web import TlsSettings
from gateway.core.tracing import parent_of
from gateway.settings.telemetry import TelemetrySettings
from gateway.telemetry import names
from gateway.telemetry.spans import Recording, Span
from gateway.upstream.proxies import proxy_for

log = logging.getLogger("gateway.telemetry")

MAX_WAITING = 2048  # spans that are not sent yet, about 2 KB each
BATCH = 512
EVERY_S = 5.0  # a request to the collector costs as much as ten spans
TIMEOUT_S = 10.0  # for a batch, with its repetitions
PROBE_S = 2.0  # for `toolgate check --live`
CLOSE_S = 3.0  # for what is left when the process ends
KINDS = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
}
SCOPE = InstrumentationScope("toolgate", __version__)
UNSET, FAILURE = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
NO_STATE = TraceState()
EXPORTED, FAILED, DROPPED = "exported", "failed", "dropped"


class _ExportTrouble(logging.Filter):
    """Keeps why the SDK could not send a batch, instead of a line for each of its attempts."""

    text = ""

    def __init__(self) -> None:
        super().__init__()
        self._source = logging.getLogger(trace_exporter.__name__)
        self._source.addFilter(self)
        self._source.setLevel(logging.WARNING)  # whatever the level of our own log

    def remove(self) -> None:
        self._source.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        # Of the lines about one batch, the first one says what happened, and the last that this was the end.
        self.text = self.text or _short(record.getMessage())
        return False


def _short(text: str) -> str:
    """What the operating system says, if it is that; else all of it."""
    match = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return text if match is None else match[1]


class _CountingExporter(SpanExporter):
    """An exporter that reports how many spans it has sent, or failed to send, from the thread that it runs in."""

    def __init__(self, inner: SpanExporter, why: _ExportTrouble, report: Callable[[int, str | None], None]) -> None:
        self._inner = inner
        self._why = why
        self._report = report

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._why.text, result = "", SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            self._report(len(spans), None if result is SpanExportResult.SUCCESS else self._why.text)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class SpanExport:
    """Sends spans. `count` counts what becomes of them, by a word: `exported`, `failed` or `dropped`.

    To be made in the event loop, whose thread alone may call it.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        count: Callable[[str, int], None],
        *,
        exporter: SpanExporter | None = None,
        close_s: float = CLOSE_S,
    ) -> None:
        """`exporter` and `close_s` are for tests."""
        self._close_s = close_s
        self._count = count
        self._waiting = 0
        self._is_up = True
        self._why = _ExportTrouble()
        self._loop = asyncio.get_running_loop()
        # It adds what OTEL_RESOURCE_ATTRIBUTES says, such as the name of a pod.
        self._resource = Resource.create({"service.name": settings.service, "service.version": __version__})
        self._processor = BatchSpanProcessor(
            _CountingExporter(exporter or _exporter(settings), self._why, self._report),
            max_queue_size=MAX_WAITING,
            schedule_delay_millis=EVERY_S * 1000,
            max_export_batch_size=BATCH,
        )
        for word in (EXPORTED, FAILED, DROPPED):
            count(word, 0)  # from the start, so that the first is seen as an increase

    def put(self, span: Span) -> None:
        """Queues a span that has ended."""
        if self._waiting >= MAX_WAITING:
            self._count(DROPPED, 1)
            return
        self._waiting += 1
        self._processor.on_end(_sent(span, self._resource))

    def _report(self, spans: int, trouble: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._counted, spans, trouble)

    def _counted(self, spans: int, trouble: str | None) -> None:
        self._waiting -= spans
        self._count(EXPORTED if trouble is None else FAILED, spans)
        if self._is_up is (trouble is None):
            return
        self._is_up = trouble is None
        if trouble is None:
            log.info("spans are exported again")
        else:
            log.warning("spans cannot be exported", extra={"reason": trouble})

    async def aclose(self) -> None:
        """Sends what waits, for a few seconds at most."""
        closed = asyncio.Event()

        def close() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(closed.set)

        # No thread of an executor: the interpreter would wait for that, however long the collector takes.
        threading.Thread(target=close, daemon=True).start()
        try:
            await asyncio.wait_for(closed.wait(), self._close_s)
        except TimeoutError:
            log.warning("spans were lost, because they could not be exported in time", extra={"spans": self._waiting})
        self._why.remove()


def trouble_with(settings: TelemetrySettings) -> str | None:
    """Why a collector does not take spans, by sending none; None if it does. Takes some seconds at most."""
    why = _ExportTrouble()
    exporter = _exporter(settings, PROBE_S)
    try:
        return None if exporter.export(()) is SpanExportResult.SUCCESS else why.text
    finally:
        exporter.shutdown()
        why.remove()


def _exporter(settings: TelemetrySettings, timeout_s: float = TIMEOUT_S) -> SpanExporter:
    files = settings.tls or TlsSettings()
    session = requests.Session()
    session.trust_env = False  # neither proxies nor passwords of the environment, unless `proxy` says so
    proxy = proxy_for(settings.proxy, settings.endpoint)
    session.proxies = {} if proxy is None else {"http": proxy.url, "https": proxy.url}
    trusted = ssl.get_default_verify_paths()
    return trace_exporter.OTLPSpanExporter(
        endpoint=settings.endpoint,
        certificate_file=files.ca or trusted.cafile or trusted.capath,
        client_key_file=files.key,
        client_certificate_file=files.cert,
        headers={name: value.get_secret_value() for name, value in settings.headers.items()},
        timeout=timeout_s,
        session=session,
    )


def _sent(span: Span, resource: Resource) -> ReadableSpan:
    """The span as the SDK's exporters take it.

    Made by hand: the ids are those that tool servers were sent, and the SDK's tracer would take five times as long.
    """
    recording, error = span.recording, span.error
    trace, state = int(recording.trace, 16), _state(recording)
    parent = None
    if span.parent is not None:
        is_remote = span is recording.root
        parent = SpanContext(trace, int(span.parent, 16), is_remote, TraceFlags(recording.flags), state)
    return ReadableSpan(
        span.name,
        SpanContext(trace, int(span.id, 16), False, TraceFlags(recording.flags), state),
        parent,
        resource,
        {**span.attributes, names.ERROR: error} if error else span.attributes,
        links=[link for traceparent in span.links if (link := _link(traceparent)) is not None],
        kind=KINDS[span.kind],
        status=FAILURE if error else UNSET,
        start_time=span.begun_ns,
        end_time=span.ended_ns,
        instrumentation_scope=SCOPE,
    )


def _state(recording: Recording) -> TraceState:
    return NO_STATE if recording.state is None else TraceState.from_header([recording.state.decode("latin-1")])


def _link(traceparent: str) -> Link | None:
    """A link to a span of another trace; None for what is no `traceparent`, as a note of another release may hold."""
    match = parent_of(traceparent.encode())
    if match is None:
        return None
    return Link(
        SpanContext(int(match.trace, 16), int(match.span, 16), is_remote=True, trace_flags=TraceFlags(match.flags))
    )
