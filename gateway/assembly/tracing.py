"""What a gateway records of requests: nothing, or spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gateway.assembly.traced_observer import TracedObserver
from gateway.core.ports import Backend, Outcomes
from gateway.core.tracing import Step, Trace, continue_trace, identify, unrecorded
from gateway.http.accesslog import AccessLog, Observer
from gateway.metrics import Metrics
from gateway.settings import Config, TelemetrySettings
from gateway.state.port import State
from gateway.telemetry import names
from gateway.telemetry.recorder import Recorder
from gateway.telemetry.spans import Span
from gateway.telemetry.steps import (
    RecordedAdmission,
    backend_with_runs,
    outcomes_with_traces,
    recorded,
    state_with_steps,
)
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server
from gateway.usage.recorder import CountCall

if TYPE_CHECKING:
    from gateway.telemetry.export import SpanExport

Count = Callable[[str, int], None]


class Telemetry:
    """Records nothing: every part stands as it is."""

    admission: type[Admission[Server]] = Admission  # the class of the admission to each backend
    step: Step = staticmethod(unrecorded)  # what the pipeline wraps its steps in

    def __init__(self, digits: Iterator[bytes]) -> None:
        """`digits` are random."""
        self.identify: Callable[[Mapping[bytes, bytes]], Trace] = partial(identify, digits)
        self.continue_trace: Callable[[Trace, bytes, bytes | None], Trace] = continue_trace
        self.link: Callable[[Trace, str], Trace] = _unlinked

    def observer(self, metrics: Metrics, access: AccessLog, count_call: CountCall) -> Observer:
        return Observer(metrics, access, count_call)

    def state(self, state: State, *, is_shared: bool) -> State:
        """The state as calls use it."""
        return state

    def backends(self, backends: Mapping[str, Backend], config: Config) -> Mapping[str, Backend]:
        """The backends as calls use them."""
        return backends

    def outcomes(self, outcomes: Outcomes, state: State) -> Outcomes:
        """Where outcomes go for which a backend has to ask."""
        return outcomes

    async def start(self, count: Count) -> None:
        """Begins to send spans; `count` counts what becomes of them."""

    async def aclose(self) -> None:
        """Sends what waits, for a few seconds at most."""


class RecordingTelemetry(Telemetry):
    """Records the spans of sampled requests."""

    admission = RecordedAdmission
    step = staticmethod(recorded)

    def __init__(self, settings: TelemetrySettings, digits: Iterator[bytes], *, is_tls: bool) -> None:
        super().__init__(digits)
        self._settings = settings
        self._export: SpanExport | None = None
        self._recorder = recorder = Recorder(settings.sample, self._put, digits)
        self.identify, self.continue_trace, self.link = recorder.identify, recorder.continue_trace, recorder.link
        self._scheme = "https" if is_tls else "http"

    def observer(self, metrics: Metrics, access: AccessLog, count_call: CountCall) -> Observer:
        return TracedObserver(metrics, access, count_call, self._scheme)

    def state(self, state: State, *, is_shared: bool) -> State:
        return state_with_steps(state, names.of_state(is_shared=is_shared))

    def backends(self, backends: Mapping[str, Backend], config: Config) -> Mapping[str, Backend]:
        protocols = {name: settings.protocol for name, settings in config.backends.items()}
        return {name: backend_with_runs(backend, protocols[name]) for name, backend in backends.items()}

    def outcomes(self, outcomes: Outcomes, state: State) -> Outcomes:
        return outcomes_with_traces(outcomes, state.local_record, self._recorder.about)

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


def _unlinked(trace: Trace, stored: str) -> Trace:
    return trace
