"""From the settings of backends to open backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gateway.assembly import factories
from gateway.assembly.generation import OpenBackend, Part, keep_or_make
from gateway.assembly.tracing import Telemetry
from gateway.calls.registry import Calls
from gateway.metrics import Metrics
from gateway.net.body_memory import BodyMemory
from gateway.offload import ChildTasks, Offload
from gateway.protocols.rap.settings import CallbackBackendSettings
from gateway.settings import BackendSettings, Config
from gateway.state.port import State
from gateway.upstream.replica_url import BackendContext, open_admission


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOpener:
    """Opens the backends of one configuration after the other."""

    calls: Calls  # which take the outcomes of deferred calls
    state: State
    telemetry: Telemetry
    metrics: Metrics
    memory: BodyMemory
    checker: ChildTasks
    lists: Offload
    pending_s: float  # how long a call may take that leaves a record
    on_change: Callable[[str], None]  # called with a backend that reports a change of its tools

    def open(self, config: Config, before: Mapping[str, Part[OpenBackend]]) -> Mapping[str, Part[OpenBackend]]:
        """The backends by name; those from before that have not changed stay."""
        patience_s = factories.patience_s(config)
        return {
            name: keep_or_make(before.get(name), settings, partial(self._open, name, settings, patience_s[name]))
            for name, settings in config.backends.items()
        }

    def _open(self, name: str, settings: BackendSettings, patience_s: float) -> OpenBackend:
        admission = open_admission(name, settings, patience_s, self.memory, self.telemetry.admission)
        # Outcomes of callbacks come with a request, which is traced itself.
        is_called_back = isinstance(settings, CallbackBackendSettings)
        context = BackendContext(
            admission=admission,
            outcomes=self.calls if is_called_back else self.telemetry.outcomes(self.calls, self.state),
            checker=self.checker,
            lists=self.lists,
            on_change=partial(self.on_change, name),
            pending_s=self.pending_s,
            count_dropped=partial(self.metrics.notice_dropped, name),
            memory=self.memory,
        )
        return OpenBackend(factories.adapter(settings)(name, settings, context), admission)
