"""Responses of MCP servers before their content is looked at: whether they are any, to what, and what has run."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from gateway import jsontext
from gateway.dialects.mcp_server import Agreed
from gateway.dialects.mcp_wire import HEADER_MISMATCH, INVALID, MISSING_CAPABILITY, PARAMS, PREFIX, UNSUPPORTED_VERSION
from gateway.dialects.replies import MAX_DEPTH, BrokenReplyError, without_mark
from gateway.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.model import Json, JsonObject, Progress
from gateway.wire import Answer

# What servers say that do not know a session, or have none yet, all before any tool is run. Of those seen: Python and
# FastMCP -32600 "Session not found", TypeScript -32001 "Session not found", -32000 "Server not initialized",
# server-everything -32000 "No valid session ID provided".
NO_SESSION = re.compile("session|initializ", re.IGNORECASE)
NO_REVISION = re.compile("session|initializ|protocol.?version", re.IGNORECASE)
OF_TRANSPORTS = (INVALID, *range(-32019, -31999))  # codes of such errors
MAX_PROGRESS = 1024  # characters of a message; it is shown in one line
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY)  # none but a modern server says these


def message_of(reply: Answer) -> JsonObject:
    """The one message in an answer. Raises BrokenReplyError, and BACKEND_UNAVAILABLE if nothing is at its path."""
    text = without_mark(reply.body)
    document: Json = None
    reason = "not a JSON object"
    if len(text) > jsontext.ALWAYS_HERE_BYTES and jsontext.is_wide(text):
        reason = "it holds too many values"
    else:
        try:
            document = jsontext.decode(text, MAX_DEPTH)
        except jsontext.JsonError as exc:
            reason = f"not JSON: {exc}"
    if reply.status == 404 and not (isinstance(document, dict) and isinstance(document.get("error"), dict)):
        raise GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail="nothing is at its path (404)")
    if not isinstance(document, dict):
        raise BrokenReplyError(reason if reply.status == 200 else f"status {reply.status}")
    return document


class _Told(Struct):
    progress: float
    progressToken: Json = None  # noqa: N815 - as it is written
    total: float | None = None
    message: str | None = None


_read_told = msgspec.json.Decoder(_Told).decode


def progress_of(params: bytes | Raw, token: int) -> Progress | None:
    """How far a call has come, by a notification with its token; None for any other."""
    try:
        told = _read_told(params)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if told.progressToken != token or isinstance(told.progressToken, bool):
        return None
    message = None if told.message is None else told.message[:MAX_PROGRESS]
    return Progress(told.progress, told.total, message)


def check_id(message: Json, id_: int) -> None:
    """Raises BrokenReplyError for the response to another request; an error need not have an id."""
    if isinstance(message, dict):
        answered = message.get("id")
        if answered is None and "error" in message:
            return
        if answered != id_ or isinstance(answered, bool):
            raise BrokenReplyError("it answers another request")


class _Error(Struct):
    code: int
    message: str = ""


class _ErrorResponse(Struct):
    error: _Error


_read_error = msgspec.json.Decoder(_ErrorResponse).decode


def lost(agreed: Agreed, reply: Answer) -> str | None:
    """What the server does not know: our `session` or the `revision`. None if the answer does not prove that.

    Where it is not None, no tool has run: the servers that answer so do it before they look at a request.
    """
    if reply.status == 404 and agreed.session is not None:
        return "session"
    if reply.status != 400:
        return None
    try:
        error = _read_error(without_mark(reply.body)).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if error.code == UNSUPPORTED_VERSION:
        return "revision"
    if agreed.is_modern:
        return "revision" if error.code in OF_TRANSPORTS and NO_REVISION.search(error.message) else None
    if error.code in MODERN_ERRORS or (error.code == PARAMS and PREFIX in error.message):
        return "revision"
    return "session" if error.code in OF_TRANSPORTS and NO_SESSION.search(error.message) else None
