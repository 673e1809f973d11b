"""Whether the schemas of tools can be used, and as what they are listed: work that takes long for some of them."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gateway.model import JsonObject
from gateway.schemas import InputSchema, SchemaError, inline_refs, inlined, is_json_schema


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


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Schemas).decode
decode_verdict = msgspec.json.Decoder(Verdict).decode


def judge_schemas(*texts: bytes) -> tuple[bytes, ...]:
    """Judges the Schemas of each text; returns as many verdicts."""
    return tuple(_encode(judge(_decode(text))) for text in texts)


def judge(schemas: Schemas) -> Verdict:
    """Tells whether schemas can be used, with their references inlined."""
    try:
        InputSchema.compile(schemas.input)
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
