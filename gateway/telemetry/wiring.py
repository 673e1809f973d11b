"""Puts recorders around the parts of a gateway, or leaves the parts as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gateway.admission import Admission
from gateway.backends.server import Server
from gateway.checks import Checks
from gateway.http.accesslog import AccessLog, Observer
from gateway.metrics import Metrics
from gateway.ports import Authenticator, Authorizer, Backend, Limiter, Outcomes
from gateway.responses import ResponseBuilder
from gateway.settings import Config, TelemetrySettings
from gateway.state.port import State
from gateway.telemetry import names
from gateway.telemetry.observer import TracedObserver
from gateway.telemetry.recorder import Recorder
from gateway.telemetry.spans import Span
from gateway.telemetry.traced import (
    TracedAdmission,
    TracedAuthenticator,
    TracedAuthorizer,
    TracedBackend,
    TracedChecks,
    TracedLimiter,
    TracedOutcomes,
    TracedResponses,
    TracedState,
)
from gateway.tracing import Trace, continued, identify

if TYPE_CHECKING:
    from gateway.telemetry.export import SpanExport

Count = Callable[[str, int], None]


class Telemetry:
    """Records nothing: every part stands as it is. `digits` are random."""

    admission: type[Admission[Server]] = Admission
    checks: type[Checks] = Checks
    responses: type[ResponseBuilder] = ResponseBuilder

    def __init__(self, digits: Iterator[bytes]) -> None:
        self.identify: Callable[[Mapping[bytes, bytes]], Trace] = partial(identify, digits)
        self.continued: Callable[[Trace, bytes, bytes | None], Trace] = continued
        self.linked: Callable[[Trace, str], Trace] = _unlinked

    def observer(self, metrics: Metrics, access: AccessLog) -> Observer:
        return Observer(metrics, access)

    def authenticator(self, inner: Authenticator) -> Authenticator:
        return inner

    def authorizer(self, inner: Authorizer | None) -> Authorizer | None:
        return inner

    def limiter(self, inner: Limiter) -> Limiter:
        return inner

    def state(self, inner: State, *, is_shared: bool) -> State:
        return inner

    def backends(self, inner: Mapping[str, Backend], config: Config) -> Mapping[str, Backend]:
        """The backends as calls see them."""
        return inner

    def outcomes(self, inner: Outcomes, state: State) -> Outcomes:
        """Where outcomes go for which a backend has to ask."""
        return inner

    async def start(self, count: Count) -> None:
        """Begins to send spans; `count` counts what becomes of them."""

    async def aclose(self) -> None:
        """Sends what waits, for a few seconds at most."""


class RecordingTelemetry(Telemetry):
    """Records the spans of sampled requests."""

    admission = TracedAdmission
    checks = TracedChecks
    responses = TracedResponses

    def __init__(self, settings: TelemetrySettings, digits: Iterator[bytes], *, is_tls: bool) -> None:
        super().__init__(digits)
        self._settings = settings
        self._export: SpanExport | None = None
        self.recorder = Recorder(settings.sample, self._put, digits)
        self.identify, self.continued = self.recorder.identify, self.recorder.continued
        self.linked = self.recorder.linked
        self._scheme = "https" if is_tls else "http"

    def observer(self, metrics: Metrics, access: AccessLog) -> Observer:
        return TracedObserver(metrics, access, self._scheme)

    def authenticator(self, inner: Authenticator) -> Authenticator:
        return TracedAuthenticator(inner)

    def authorizer(self, inner: Authorizer | None) -> Authorizer | None:
        return None if inner is None else TracedAuthorizer(inner)

    def limiter(self, inner: Limiter) -> Limiter:
        return TracedLimiter(inner)

    def state(self, inner: State, *, is_shared: bool) -> State:
        return TracedState.around(inner, names.of_state(is_shared=is_shared))

    def backends(self, inner: Mapping[str, Backend], config: Config) -> Mapping[str, Backend]:
        return {name: TracedBackend.around(each, config.backends[name].protocol) for name, each in inner.items()}

    def outcomes(self, inner: Outcomes, state: State) -> Outcomes:
        return TracedOutcomes(inner, state.local_record, self.recorder.about)

    async def start(self, count: Count) -> None:
        from gateway.telemetry.export import SpanExport

        self._export = SpanExport(self._settings, count)

    async def aclose(self) -> None:
        export, self._export = self._export, None
        if export is not None:
            await export.aclose()

    def _put(self, span: Span) -> None:
        if self._export is not None:
            self._export.put(span)


def telemetry(config: Config, digits: Iterator[bytes]) -> Telemetry:
    """What a configuration asks for."""
    if config.telemetry is None:
        return Telemetry(digits)
    return RecordingTelemetry(config.telemetry, digits, is_tls=config.server.tls is not None)


def _unlinked(trace: Trace, kept: str) -> Trace:
    return trace
