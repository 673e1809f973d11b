"""Spans of requests, for OpenTelemetry: recorded in the steps of a gateway, sent by the official SDK.

`gateway.assembly.tracing` gives the pipeline what it wraps its steps in, and calls their state and their backends:
recorders (`steps`) if `telemetry` is configured; if it is not, the functions and parts themselves.
"""
