"""Holds values against schemas that may take long."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from gateway.schemas import InputSchema, OutputSchema, SchemaError

REMEMBERED = 4  # compiled schemas; each may take 32 MB

# Without the limits of `jsontext`: what comes here was read by it before.
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def explain_input(schema: bytes, arguments: bytes) -> tuple[bytes]:
    """What is wrong with the arguments of a call, by parameter, as a JSON object; empty when they are valid."""
    return (_encode(_input(schema).errors(_decode(arguments))),)


def explain_output(schema: bytes, value: bytes) -> tuple[bytes]:
    """The first thing that is wrong with a tool's value, as a sentence; empty when it is valid."""
    try:
        compiled = _output(schema)
    except SchemaError as exc:
        return (f"The output schema cannot be used: {exc.reason}".encode(),)
    return ((compiled.violation(_decode(value)) or "").encode(),)


@lru_cache(REMEMBERED)
def _input(schema: bytes) -> InputSchema:
    return InputSchema.compile(_decode(schema))


@lru_cache(REMEMBERED)
def _output(schema: bytes) -> OutputSchema:
    return OutputSchema.compile(_decode(schema))
