"""Checks schemas, and values against schemas, where either may take long."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Struct

from gateway.model import JsonObject
from gateway.schemas import (
    CompiledSchema,
    SchemaError,
    by_parameter,
    compile_input,
    inline_refs,
    inlined,
    is_json_schema,
)

REMEMBERED = 8  # compiled schemas; each may take 32 MB

# Without the limits of `jsontext`: what comes here was read by it before.
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def explain_input(schema: bytes, arguments: bytes) -> tuple[bytes]:
    """What is wrong with the arguments of a call, by parameter, as a JSON object; empty when they are valid."""
    return (_encode(by_parameter(_compiled(schema).findings(_decode(arguments)))),)


def explain_output(schema: bytes, value: bytes) -> tuple[bytes]:
    """The first thing that is wrong with a tool's value, as a sentence; empty when it is valid."""
    try:
        found = _compiled(schema).findings(_decode(value))
    except SchemaError as exc:
        return (f"The output schema cannot be used: {exc.reason}".encode(),)
    return (found[0].sentence.encode() if found else b"",)


@lru_cache(REMEMBERED)
def _compiled(schema: bytes) -> CompiledSchema:
    return CompiledSchema.compile(_decode(schema))


class Schemas(Struct, frozen=True):
    """What a tool takes and returns."""

    input: JsonObject
    output: JsonObject | None


class Verdict(Struct, frozen=True):
    """`reason`: why the schemas cannot be used; else they are listed as these.

    `shows_output`: callers could make something of the output schema.
    """

    schemas: Schemas
    reason: str = ""
    shows_output: bool = True


_decode_schemas = msgspec.json.Decoder(Schemas).decode
decode_verdict = msgspec.json.Decoder(Verdict).decode


def check_schemas(*texts: bytes) -> tuple[bytes, ...]:
    """Checks the Schemas of each text; returns as many verdicts."""
    return tuple(_encode(check(_decode_schemas(text))) for text in texts)


def check(schemas: Schemas) -> Verdict:
    """Checks whether schemas can be used, and inlines their references."""
    try:
        compile_input(schemas.input)
    except SchemaError as exc:
        return Verdict(Schemas({}, None), reason=f"Its input schema cannot be used. {exc.reason}")
    output, useful = _promised(schemas.output)
    return Verdict(Schemas(inline_refs(schemas.input), output), shows_output=useful)


def _promised(schema: JsonObject | None) -> tuple[JsonObject | None, bool]:
    """An output schema with its references inlined, and whether callers could make anything of it."""
    if not schema:
        return schema, True
    try:
        promised = inlined(schema)
    except SchemaError:
        return schema, False
    return promised, is_json_schema(promised)
