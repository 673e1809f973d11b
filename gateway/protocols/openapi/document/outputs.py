"""What a tool returns, by the answers that its operation declares for success."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.conversion import NULL, Converter
from gateway.protocols.openapi.document.curation import Terms, ToolTerms
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.payloads import MEDIA_TYPE
from gateway.protocols.openapi.document.plan import AnswerPlan, OperationError
from gateway.protocols.openapi.document.schemas import Needed

MAX_BYTES = 32 * 1024  # of an output schema that is capped: most are small, and a few are most of all bytes
MAX_ACCEPTED = 20  # media types in one header

SUCCESS = re.compile(r"2([0-9]{2}|XX)", re.IGNORECASE)
WITHOUT_BODY = ("204", "205")
CREATED = ("201", "202")  # which may say in a header where the result is
EVENTS = "text/event-stream"
ANY_JSON = "application/json"

ANYTHING: JsonObject = {}
TEXT: JsonObject = {"type": "string"}
LOCATION: JsonObject = {"type": "object", "properties": {"location": TEXT}, "required": ["location"]}
BINARY: JsonObject = {
    "type": "object",
    "properties": {"content_type": TEXT, "base64": {"type": "string", "contentEncoding": "base64"}, "filename": TEXT},
    "required": ["content_type", "base64"],
}
_HEADERS: JsonObject = {"type": "object", "additionalProperties": TEXT}
HEAD: JsonObject = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "headers": _HEADERS},
    "required": ["status", "headers"],
}


class Output(Struct, frozen=True, kw_only=True):
    """What a tool returns, and how it is read."""

    schema: JsonObject | None  # None: it returns nothing
    answers: AnswerPlan
    accept: str  # the header that asks for it
    warnings: tuple[str, ...] = ()


def output_of(operation: Operation, converter: Converter, terms: Terms, tool_terms: ToolTerms) -> Output:
    """Reads what an operation answers with. Raises OperationError for one whose answers never end."""
    successes = _successes(operation.responses)
    offered = [name for _, response in successes for name in _content(response)]
    kinds = list(dict.fromkeys(media.essence(name) for name in offered))
    if kinds == [EVENTS]:
        raise OperationError("It answers with a stream of events, which is no result.")
    warnings: list[str] = []
    schema = _schema(operation, successes, converter, terms, warnings)
    if tool_terms.select:
        schema = ANYTHING
    if tool_terms.response_headers and operation.method != "HEAD":
        schema = _with_headers(schema)
    return Output(
        schema=schema,
        answers=AnswerPlan(
            media_types=tuple(kind for kind in kinds if kind != EVENTS),
            success=tool_terms.success or terms.success,
            select=tool_terms.select or "",
            headers=tuple(dict.fromkeys(name.lower() for name in tool_terms.response_headers)),
            max_binary_bytes=terms.max_binary_bytes,
        ),
        accept=_accept(offered),
        warnings=tuple(warnings),
    )


def _successes(responses: JsonObject) -> list[tuple[str, JsonObject]]:
    """The answers that are declared for success; `default` is one only if there is no other."""
    by_status = {str(status): response for status, response in responses.items() if isinstance(response, dict)}
    successes = [(status, response) for status, response in by_status.items() if SUCCESS.fullmatch(status)]
    return successes or [entry for entry in by_status.items() if entry[0] == "default"]


def _content(response: JsonObject) -> JsonObject:
    content = response.get("content")
    return content if isinstance(content, dict) else {}


def _schema(
    operation: Operation,
    successes: Sequence[tuple[str, JsonObject]],
    converter: Converter,
    terms: Terms,
    warnings: list[str],
) -> JsonObject | None:
    """The schema of all values that stand for success."""
    if operation.method == "HEAD":
        return HEAD
    if not successes:
        return ANYTHING
    needed: Needed = {}
    try:
        forms = _forms(successes, converter, needed)
        if not forms:
            return None
        if ANYTHING in forms or terms.output_schemas == "none":
            return ANYTHING
        schema = forms[0] if len(forms) == 1 else {"anyOf": forms}
        if definitions := converter.definitions(needed):
            schema = {**schema, "$defs": definitions}
    except OperationError as exc:
        warnings.append(f"Its output schema cannot be used: {exc}")
        return ANYTHING
    most, key = terms.bounds.max_schema_bytes, "discovery.max_schema"
    if terms.output_schemas == "capped" and most > MAX_BYTES:
        most, key = MAX_BYTES, "output_schemas: capped"
    if len(encode(schema)) > most:
        warnings.append(f"Its output schema has more than {most} bytes and is left out ({key}).")
        return ANYTHING
    return schema


def _forms(successes: Sequence[tuple[str, JsonObject]], converter: Converter, needed: Needed) -> list[JsonObject]:
    """The schemas of all answers, each once."""
    forms: list[JsonObject] = []
    if not any(_content(response) for status, response in successes if status not in WITHOUT_BODY):
        # Many documents leave out what stands in the body; some statuses never have one.
        return [] if all(status in WITHOUT_BODY for status, _ in successes) else [ANYTHING]
    for status, response in successes:
        content = _content(response)
        if status in WITHOUT_BODY or not content:
            forms += [NULL, LOCATION] if status in CREATED else [NULL]
            continue
        kinds = [(media.essence(media_type), described) for media_type, described in content.items()]
        json = [entry for entry in kinds if media.is_json(entry[0])]
        for kind, described in json or kinds:  # JSON is asked for where there is a choice
            if kind != EVENTS:
                forms.append(_form(kind, described if isinstance(described, dict) else {}, converter, needed))
    return [form for at, form in enumerate(forms) if form not in forms[:at]]


def _form(kind: str, described: JsonObject, converter: Converter, needed: Needed) -> JsonObject:
    schema: Json = described.get("schema", {})
    if media.is_json(kind):
        return converter.convert(schema, "output", needed)
    if kind in media.LINES or kind == media.SEQUENCE:
        return {"type": "array", "items": converter.convert(described.get("itemSchema", {}), "output", needed)}
    if "*" in kind:
        return ANYTHING
    return TEXT if media.is_text(kind) else BINARY


def _with_headers(schema: JsonObject | None) -> JsonObject:
    """The schema of a value that stands beside headers of its answer."""
    body = NULL if schema is None else schema
    definitions: JsonObject = {key: body[key] for key in ("$defs",) if key in body}
    inner = {key: value for key, value in body.items() if key not in definitions}
    properties = {"body": inner, "headers": _HEADERS}
    return {**definitions, "type": "object", "properties": properties, "required": ["body", "headers"]}


def _accept(offered: Sequence[str]) -> str:
    """The media types that are asked for, JSON rather than others, and at last any: errors may have another one."""
    named = dict.fromkeys(name.strip() for name in offered if MEDIA_TYPE.fullmatch(name.strip()))
    kinds = {name: media.essence(name) for name in named}
    accepted = [name for name, kind in kinds.items() if kind != EVENTS and name != "*/*"]
    json = [name for name in accepted if media.is_json(kinds[name])]
    others = [f"{name};q=0.5" if json else name for name in accepted if name not in json]
    return ", ".join([*([*json, *others][:MAX_ACCEPTED] or [ANY_JSON]), "*/*;q=0.1"])
