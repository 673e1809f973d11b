"""Reading requests as the RCRT server does: what is wrong with one decides the status, and the body is plain text."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime

from jsonschema_rs import Draft202012Validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from gateway.demo.service import BODY_WAIT_S, decode
from gateway.demo.toolbox import Json, JsonObject, RefusedError

MAX_BODY_BYTES = 2 * 1024 * 1024  # the default of the framework below the real server
MAX_TAGS = 100
TEXT = {"type": ["string", "null"]}
NAMES = {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": MAX_TAGS}
PROPERTIES: JsonObject = {
    "title": {"type": "string"},
    "context": {},
    "tags": NAMES,
    "schema_name": TEXT,
    "description": TEXT,
    "semantic_version": TEXT,
    "llm_hints": {"type": ["object", "null"]},
    "visibility": TEXT,
    "sensitivity": TEXT,
    "ttl": TEXT,
}
DRAFT = Draft202012Validator(
    {"type": "object", "properties": PROPERTIES, "required": ["title", "context", "tags"]}, mask="The value"
)
CHANGES = Draft202012Validator(
    {"type": "object", "properties": {**PROPERTIES, "title": TEXT, "tags": {**NAMES, "type": ["array", "null"]}}},
    mask="The value",
)
TAGS = Draft202012Validator({"type": "object", "properties": {"tags": NAMES}, "required": ["tags"]}, mask="The value")
MERGE = Draft202012Validator(
    {"type": "object", "properties": {"context": {"type": "object"}}, "required": ["context"]}, mask="The value"
)


async def read_json(request: Request) -> Json:
    """Raises: HTTPException (415, 413, 408, 400)."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Expected request with `Content-Type: application/json`")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise HTTPException(413, "length limit exceeded")
        return decode(bytes(body))
    except TimeoutError:
        raise HTTPException(408, "the request did not arrive in time") from None
    except (ClientDisconnect, RefusedError):
        raise HTTPException(400, "Failed to parse the request body as JSON") from None


def shaped(document: Json, validator: Draft202012Validator) -> JsonObject:
    """The known fields of a document that has the right shape, without nulls. Raises HTTPException (422)."""
    for error in validator.iter_errors(document):
        raise HTTPException(422, f"Failed to deserialize the JSON body into the target type: {error.message}"[:300])
    known = {name: document[name] for name in PROPERTIES if document.get(name) is not None}
    if "ttl" in known:
        _check_instant(known["ttl"])
    return known


def uuid_of(request: Request, name: str) -> str:
    """Raises: HTTPException (400)."""
    try:
        return str(uuid.UUID(request.path_params[name]))
    except ValueError:
        raise HTTPException(400, "Invalid URL: UUID parsing failed") from None


def number_of(request: Request, name: str, least: int) -> int | None:
    """A whole number of the query. Raises HTTPException (400)."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= least):
        raise HTTPException(400, f"Failed to deserialize query string: {name}")
    return int(text)


def one_of(request: Request, name: str) -> str | None:
    """A parameter that may be there once. Raises HTTPException (400)."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise HTTPException(400, f"Failed to deserialize query string: duplicate field `{name}`")
    return values[0] if values else None


def _check_instant(text: str) -> None:
    """RFC 3339 wants an offset, or two clocks cannot agree on it. Raises HTTPException (422)."""
    try:
        is_instant = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        is_instant = False
    if not is_instant:
        raise HTTPException(422, "Failed to deserialize the JSON body into the target type: ttl")
