"""Whether the schemas of tools can be used, and as what they are listed: work that takes long for some of them."""

from __future__ import annotations

from time import process_time

import msgspec
from msgspec import Struct

from gateway.model import JsonObject
from gateway.schemas import InputSchema, SchemaError, inline_refs, inlined, is_json_schema, is_light

QUICK_S = 0.005  # to compile, of processor time: as much as the event loop may be held


class Schemas(Struct, frozen=True):
    """What a tool takes and returns."""

    input: JsonObject
    output: JsonObject | None


class Verdict(Struct, frozen=True):
    """`reason`: why the schemas cannot be used; else they are listed as these.

    `shows_output`: callers could make something of the output schema. `is_quick`: to compile the input schema takes
    milliseconds.
    """

    schemas: Schemas
    reason: str = ""
    shows_output: bool = True
    is_quick: bool = True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Schemas).decode
decode_verdict = msgspec.json.Decoder(Verdict).decode


def judge_schemas(*texts: bytes) -> tuple[bytes, ...]:
    """Judges the Schemas of each text; returns as many verdicts."""
    return tuple(_encode(judge(_decode(text))) for text in texts)


def judge(schemas: Schemas) -> Verdict:
    """Tells whether schemas can be used, with their references inlined."""
    begun = process_time()
    try:
        InputSchema.compile(schemas.input)
    except SchemaError as exc:
        return Verdict(Schemas({}, None), reason=f"Its input schema cannot be used. {exc.reason}")
    is_quick = process_time() - begun < QUICK_S and is_light(schemas.input)
    output, useful = _promised(schemas.output)
    return Verdict(Schemas(inline_refs(schemas.input), output), shows_output=useful, is_quick=is_quick)


def _promised(schema: JsonObject | None) -> tuple[JsonObject | None, bool]:
    """An output schema with its references inlined, and whether callers could make anything of it."""
    if not schema:
        return schema, True
    try:
        promised = inlined(schema)
    except SchemaError:
        return schema, False
    return promised, is_json_schema(promised)
