"""Spans of requests, for OpenTelemetry: recorded around the parts of a gateway, sent by the official SDK.

The pipeline and the backends know nothing of it. `wiring` puts recorders around them if `telemetry` is configured; if
it is not, the parts stand there as they are.
"""
