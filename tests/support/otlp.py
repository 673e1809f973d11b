"""A collector for tests: takes spans by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS = {1: "internal", 2: "server", 3: "client", 5: "consumer"}
ERROR = 2  # of a status


@dataclass(frozen=True)
class Seen:
    """A span as the collector got it; `links` are (trace, span) in hexadecimal digits."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    failed: bool
    begun_ns: int
    ended_ns: int
    resource: dict[str, Any] = field(repr=False)


@dataclass
class Collector:
    """Where it is, and what it got. `status` is what it answers; `headers` are those of the last request."""

    url: str = ""
    status: int = 200
    spans: list[Seen] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def of(self, trace: str) -> list[Seen]:
        """The spans of one trace, by their beginning."""
        return sorted((span for span in self.spans if span.trace == trace), key=lambda span: span.begun_ns)

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for whole in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {pair.key: _value(pair.value) for pair in whole.resource.attributes}
            self.spans += [_seen(span, resource) for scope in whole.scope_spans for span in scope.spans]


def _seen(span: Span, resource: dict[str, Any]) -> Seen:
    return Seen(
        name=span.name,
        kind=KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes={pair.key: _value(pair.value) for pair in span.attributes},
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        failed=span.status.code == ERROR,
        begun_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        resource=resource,
    )


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a port of this machine."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.headers = {name.lower(): value for name, value in self.headers.items()}
            if collector.status == 200 and self.path == "/v1/traces":
                collector.take(body)
            self.send_response(collector.status if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
