"""Every metric there is: its name, its labels, and how the gauges of several processes are merged.

Names and units follow Prometheus, Metric and label naming; `promtool check metrics` has nothing to say about them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "min", "max"]

# Seconds. Requests: from a refusal to the longest timeout that is usual; calls may run for hours behind a callback.
REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOOL_S = (*REQUEST_S, 300.0, 3600.0)
# The gateway's own share is some tens of microseconds, and milliseconds when it is crowded.
OVERHEAD_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)

USED_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # of a limit; above is a full one


class Family(Struct, frozen=True, eq=False):
    """One metric. `merge` is how gauges of several processes become one: of states, the worst is shown."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = "counter"
    buckets: tuple[float, ...] = ()
    merge: Merge = "sum"

    @property
    def width(self) -> int:
        """How many numbers a child has: a histogram one for each bucket, one for all above, and the sum."""
        return len(self.buckets) + 2 if self.kind == "histogram" else 1


class GaugeSample(NamedTuple):
    """The value of a gauge; `labels` are values, in the order of the family's names."""

    family: Family
    labels: tuple[str, ...]
    value: float


OTHER = "other"  # the label of everything that has no label of its own
BACKEND = ("backend",)

REQUESTS = Family(
    "toolgate_requests_total", "Answered requests of callers and tool servers.", ("dialect", "operation", "status")
)
REQUEST_DURATION = Family(
    "toolgate_request_duration_seconds",
    "From the head of a request to its answer.",
    ("dialect", "operation"),
    "histogram",
    REQUEST_S,
)
OVERHEAD = Family(
    "toolgate_overhead_seconds", "The part of a call not spent waiting for a tool server.", (), "histogram", OVERHEAD_S
)
TOOL_CALLS = Family(
    "toolgate_tool_calls_total",
    "Runs of tools, and refused calls, by how they ended.",
    ("backend", "protocol", "tool", "outcome"),
)
TOOL_DURATION = Family(
    "toolgate_tool_call_duration_seconds",
    "How long the gateway waited for tool servers.",
    ("backend", "protocol"),
    "histogram",
    TOOL_S,
)
ACCOUNT_CALLS = Family(
    "toolgate_account_calls_total",
    "Runs of tools, and refused calls, by the key or issuer of their callers and by how they ended.",
    ("account", "outcome"),
)
ACCOUNT_REFUSALS = Family(
    "toolgate_account_refusals_total",
    "Refused requests, by the key or issuer of their callers, if known, and by the code of the refusal.",
    ("account", "reason"),
)
ACCOUNT_BYTES = Family(
    "toolgate_account_bytes_total",
    "Bytes of bodies of requests (in) and of answers (out), by the key or issuer of their callers.",
    ("account", "direction"),
)
AUTH_FAILURES = Family("toolgate_auth_failures_total", "Callers that could not be identified.", ("reason",))
RATE_LIMITED = Family("toolgate_rate_limited_total", "Requests that a rate limit refused.", ("rule",))
LIMIT_USED = Family(
    "toolgate_rate_limit_used_ratio",
    "The share of a limit that was used when a request met it, the request included.",
    ("rule",),
    "histogram",
    USED_SHARES,
)
AUTHORIZATIONS = Family(
    "toolgate_authorizations_total", "Calls that an authorization service decides about, by its decision.", ("outcome",)
)
AUTHORIZATION_DURATION = Family(
    "toolgate_authorization_duration_seconds",
    "How long the authorization service took for a decision.",
    (),
    "histogram",
    REQUEST_S,
)
CALL_QUOTAS = Family(
    "toolgate_call_quotas_total",
    "Calls that found a quota of stored calls of their caller scarce (nine tenths used) or full.",
    ("quota", "found"),
)
CALLBACKS = Family(
    "toolgate_callbacks_total", "Callbacks of tool servers by how they were answered.", ("backend", "outcome")
)
DROPPED_NOTICES = Family(
    "toolgate_dropped_notices_total", "Notices to callback tool servers that were never sent.", BACKEND
)
SPANS = Family("toolgate_spans_total", "Spans for OpenTelemetry by what became of them.", ("outcome",))
RELOADS = Family("toolgate_config_reloads_total", "Reloads of the configuration.", ("outcome",))
LAST_RELOAD = Family(
    "toolgate_config_last_reload_successful",
    "Whether the configuration in use is the one in the file, as last read.",
    (),
    "gauge",
    merge="min",
)
LAST_RELOAD_TIME = Family(
    "toolgate_config_last_reload_success_timestamp_seconds",
    "When the configuration in use was read, in seconds since 1970.",
    (),
    "gauge",
    merge="min",
)

IN_FLIGHT = Family(
    "toolgate_calls_in_flight",
    "Calls that are running at a tool server, or being sent to one that answers later.",
    BACKEND,
    "gauge",
)
IN_FLIGHT_LIMIT = Family(
    "toolgate_calls_in_flight_limit",
    "Calls that may run at a tool server at once (max_concurrency), in all processes.",
    BACKEND,
    "gauge",
)
WAITING = Family("toolgate_calls_waiting", "Calls that wait until one that is running has ended.", BACKEND, "gauge")
WAITING_LIMIT = Family(
    "toolgate_calls_waiting_limit", "Calls that may wait (max_queue), in all processes.", BACKEND, "gauge"
)
BACKEND_CONNECTIONS = Family(
    "toolgate_backend_connections",
    "Connections to a tool server: in_use, idle, or being opened (opening).",
    ("backend", "state"),
    "gauge",
)
BACKEND_CONNECTIONS_LIMIT = Family(
    "toolgate_backend_connections_limit",
    "Connections to a tool server that there may be, in all processes.",
    BACKEND,
    "gauge",
)
CONNECTIONS = Family("toolgate_connections", "Open connections of callers.", (), "gauge")
CONNECTIONS_LIMIT = Family(
    "toolgate_connections_limit",
    "Connections that callers may have (server.max_connections), in all processes.",
    (),
    "gauge",
)
PENDING = Family(
    "toolgate_pending_callbacks", "Calls that a tool server has accepted and not yet answered.", BACKEND, "gauge"
)
BACKEND_UP = Family(
    "toolgate_backend_up", "Whether the last attempt to list the tools succeeded.", BACKEND, "gauge", merge="min"
)
BREAKER = Family(
    "toolgate_breaker_state", "Whether calls go through: 0 closed, 1 half open, 2 open.", BACKEND, "gauge", merge="max"
)
REPLICA_UP = Family(
    "toolgate_backend_replica_up",
    "Whether a replica of a tool server takes calls.",
    ("backend", "replica"),
    "gauge",
    merge="min",
)
TOOLS_SHUT = Family(
    "toolgate_tools_shut",
    "Tools that get no calls because they failed too often, while their tool server gets calls.",
    BACKEND,
    "gauge",
    merge="max",
)
CATALOGUE_TOOLS = Family("toolgate_catalogue_tools", "Tools that are published.", BACKEND, "gauge", merge="min")
CATALOGUE_AGE = Family(
    "toolgate_catalogue_age_seconds", "Age of the list of tools in use.", BACKEND, "gauge", merge="max"
)
STREAM_UP = Family(
    "toolgate_rcrt_stream_up", "Whether the stream of events is open and alive.", BACKEND, "gauge", merge="min"
)
ISSUER_UP = Family(
    "toolgate_issuer_up",
    "Whether the last attempt to fetch the keys of an issuer succeeded.",
    ("issuer",),
    "gauge",
    merge="min",
)
ISSUER_AGE = Family(
    "toolgate_issuer_keys_age_seconds", "Age of the keys of an issuer in use.", ("issuer",), "gauge", merge="max"
)
STATE_LOSSES = Family(
    "toolgate_state_losses_total", "Times that Redis was found without the calls that were stored there."
)
STATE_UP = Family("toolgate_state_up", "Whether calls of all callers can be stored.", (), "gauge", merge="min")
STATE_AWAY = Family(
    "toolgate_state_partitions_away",
    "Of the 64 partitions of a Redis Cluster, those that cannot be reached.",
    (),
    "gauge",
    merge="max",
)
BODY_MEMORY = Family(
    "toolgate_body_memory_bytes",
    "Memory that bodies and answers hold, in the process that holds most.",
    (),
    "gauge",
    merge="max",
)
BODY_MEMORY_LIMIT = Family(
    "toolgate_body_memory_limit_bytes",
    "Memory that bodies and answers may hold in each process (server.max_memory_bodies).",
    (),
    "gauge",
    merge="min",
)
LISTENERS = Family(
    "toolgate_listeners", "Open streams on which callers hear that their tools have changed.", (), "gauge"
)
STATE_BYTES = Family("toolgate_state_bytes", "Memory that stored calls take.", (), "gauge", merge="max")
STATE_MAX_BYTES = Family(
    "toolgate_state_max_bytes", "Memory that stored calls may take; absent without a limit.", (), "gauge", merge="max"
)
CERTIFICATE_EXPIRY = Family(
    "toolgate_certificate_expiry_timestamp_seconds",
    "When certificates expire, in seconds since 1970, by the key of the configuration that names their file.",
    ("setting",),
    "gauge",
    merge="min",
)
ISSUER_EXPIRY = Family(
    "toolgate_issuer_keys_expiry_timestamp_seconds",
    "When the last key of an issuer expires, in seconds since 1970; absent if one of them does not say.",
    ("issuer",),
    "gauge",
    merge="min",
)
PROCESS = ("process",)
PROCESS_CPU = Family("process_cpu_seconds_total", "Processor time that a process has used.", PROCESS)
PROCESS_START = Family(
    "process_start_time_seconds", "When a process was started, in seconds since 1970.", PROCESS, "gauge"
)
RESIDENT = Family("process_resident_memory_bytes", "Memory of a process that is in RAM.", PROCESS, "gauge")
VIRTUAL = Family("process_virtual_memory_bytes", "Address space of a process.", PROCESS, "gauge")
OPEN_FDS = Family("process_open_fds", "Open files of a process, connections included.", PROCESS, "gauge")
MAX_FDS = Family("process_max_fds", "Files that a process may have open.", PROCESS, "gauge")
WORKER_DEATHS = Family(
    "toolgate_worker_deaths_total",
    "Workers that ended without being asked to (died), or were killed because they hung.",
    ("cause",),
)
BUILD = Family("toolgate_build_info", "The version that runs.", ("version",), "gauge", merge="max")

FAMILIES = {family.name: family for family in list(vars().values()) if isinstance(family, Family)}  # all of the above
