"""The child's tasks: pure functions of bytes that may take long, and the frames that carry them and their answers.

A frame is a fixed head and a MessagePack body: of a request the task and its parts, of an answer the parts that the
task returned. A task is any function of parts, here or in another module: the frame names both, and the child imports
it. Each part is JSON text unless the task says otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

import msgspec
from msgspec import Struct

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.schemas import (
    CompiledSchema,
    SchemaError,
    by_parameter,
    check_input,
    inline_refs,
    inlined,
    is_json_schema,
)

Parts = tuple[bytes, ...]
Task = Callable[..., Parts]

HEAD = struct.Struct("!Id")  # length of the body in bytes; of a request the processor time it may take, in seconds
MAX_FRAME_BYTES = 512 * 1024 * 1024  # a list of 64 MiB with room for what is made of it

WRAPPINGS = 4  # objects around the members that may stay encoded: `request`, `result`, `output`, `context`
LONG = 64 * 1024  # characters of a string that is taken out as well
FEW = 64  # entries of a list in which such members are looked for
# In what the event loop decodes, at 10 ns each: tools return texts of many lines and quotes, which must not be lost.
MAX_ESCAPES, MAX_ESCAPES_OF_ANSWERS = 500_000, 2_000_000
REMEMBERED = 8  # compiled schemas; each may take 32 MB

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(tuple[str, str, Parts]).decode
decode_answer = msgspec.msgpack.Decoder(Parts).decode

# Without the limits of `jsontext`: what comes here was read by it before.
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def encode_request(task: Task, parts: Parts) -> bytes:
    """The body of a request."""
    return encode((task.__module__, task.__name__, parts))


def task_of(module: str, name: str) -> Task:
    """The task of that name: the child imports what its tasks need and nothing else."""
    task: Task = getattr(import_module(module), name)
    return task


def read_document(text: bytes, depth: bytes, *members: bytes) -> tuple[bytes, ...]:
    """Checks a JSON document and encodes it again, so that what goes on is what was checked.

    `depth` is how deep it may be nested, in decimal. Objects, arrays and long strings under `members`, at most four
    objects or a short list deep, are taken out. Returns `(b"", rest, path, value, path, value, ...)`, where each path
    is a JSON array of names and indices, or `(reason,)` if the text is not JSON as `jsontext` takes it, or if the rest
    would hold up an event loop.
    """
    return _read_document(text, depth, members, MAX_ESCAPES)


def _read_document(text: bytes, depth: bytes, members: Parts, most_escapes: int) -> Parts:
    try:
        document = jsontext.decode(text, int(depth))
    except jsontext.JsonError as exc:
        return (str(exc).encode(),)
    names = {member.decode() for member in members}
    values: list[bytes] = []
    rest = _without(document, names, (), values)
    text = jsontext.encode(rest)
    if jsontext.holds_many(rest) or text.count(b"\\") > most_escapes or len(text) > jsontext.NEVER_HERE_BYTES:
        return (b"it holds too many values beside those that are passed on",)
    return (b"", text, *values)


def read_answer(text: bytes, depth: bytes, *members: bytes) -> tuple[bytes, ...]:
    """As `read_document`, of what a tool that has run has answered (`jsontext.decode_answer`)."""
    return _read_document(jsontext.without_halves(text), depth, members, MAX_ESCAPES_OF_ANSWERS)


def _without(value: Json, names: set[str], path: tuple[str | int, ...], values: list[bytes]) -> Json:
    """A copy of the outer objects in which the members of those names are null; what they were is added to `values`."""
    if isinstance(value, list) and not path and len(value) <= FEW:
        return [_without(inner, names, (index,), values) for index, inner in enumerate(value)]
    if not isinstance(value, dict) or len(path) == WRAPPINGS:
        return value
    rest: JsonObject = {}
    for name, inner in value.items():
        if name in names and (isinstance(inner, dict | list) or (isinstance(inner, str) and len(inner) > LONG)):
            rest[name] = None
            values += (jsontext.encode((*path, name)), jsontext.encode(inner))
        else:
            rest[name] = _without(inner, names, (*path, name), values)
    return rest


def explain_input(schema: bytes, arguments: bytes) -> tuple[bytes]:
    """What is wrong with the arguments of a call, by parameter, as a JSON object; empty when they are valid."""
    return (_encode(by_parameter(_compiled(schema).findings(_decode(arguments)))),)


def coerce_input(schema: bytes, arguments: bytes) -> tuple[bytes, bytes]:
    """The arguments in the form that the schema allows, and what is then wrong with them, as of `explain_input`."""
    coerced = _compiled(schema).coerced(jsontext.decode(arguments))
    return jsontext.encode(coerced), *explain_input(schema, jsontext.encode(coerced))


def explain_output(schema: bytes, value: bytes) -> tuple[bytes]:
    """The first thing that is wrong with a tool's value, as a sentence; empty when it is valid."""
    try:
        findings = _compiled(schema).findings(_decode(value))
    except SchemaError as exc:
        return (f"The output schema cannot be used: {exc.reason}".encode(),)
    return (findings[0].sentence.encode() if findings else b"",)


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
        check_input(schemas.input)
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
