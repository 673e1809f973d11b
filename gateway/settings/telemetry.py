"""Settings of what is sent to OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import SecretStr

from gateway.configfile.sections import ByName, Section, setting
from gateway.configfile.values import AnyText, Ratio, Secret
from gateway.configfile.web import NAME_OF_HEADER, EndpointUrl, TlsSettings, is_loopback
from gateway.upstream.proxies import ProxyChoice

PACKAGE = "opentelemetry.exporter.otlp.proto.http"
TRACES = "/v1/traces"  # OTLP 1.x, OTLP/HTTP Request: the path unless another is set


class TelemetrySettings(Section):
    """What is sent to OpenTelemetry, which needs the extra `otel`."""

    otlp: EndpointUrl = setting(
        ...,
        "The URL of a collector that takes OTLP over HTTP, such as `http://localhost:4318`. Spans are sent to "
        "`/v1/traces` there, unless the URL has a path.",
    )
    sample: Annotated[float, Ratio()] = setting(
        0.01,
        "The part of the traces beginning here that is recorded. A request that belongs to a trace is recorded if its "
        "caller records it.",
    )
    headers: Annotated[Mapping[str, Annotated[SecretStr, Secret(header=True)]], ByName(NAME_OF_HEADER)] = setting(
        {}, "Headers for the collector, such as an API key."
    )
    service: AnyText = setting("toolgate", "The name of the service that spans are from (`service.name`).")
    proxy: ProxyChoice | None = setting(
        None, "The proxy for requests to the collector. By default, the one at the top of the file."
    )
    tls: TlsSettings | None = setting(
        None, "Certificates for a collector at an https URL. By default, the authorities that the system trusts."
    )

    @property
    def endpoint(self) -> str:
        """Where spans are sent."""
        return self.otlp if urlsplit(self.otlp).path not in ("", "/") else self.otlp.rstrip("/") + TRACES

    def problems(self) -> Iterator[tuple[str, str]]:
        parts = urlsplit(self.otlp)
        if not _is_installed():
            how = "pip install 'toolgate-gateway[otel]', or '.[otel]' in the folder of Toolgate"
            yield "", f"needs OpenTelemetry's SDK: {how}"
        if self.headers and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield "headers", "would be sent to another machine without TLS; otlp must begin with https"
        if self.tls is not None and parts.scheme == "http":
            yield "tls", "has no effect unless otlp begins with https"


def _is_installed() -> bool:
    try:
        return find_spec(PACKAGE) is not None
    except ModuleNotFoundError:
        return False
