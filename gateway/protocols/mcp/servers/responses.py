"""Responses of MCP servers before their content is looked at: whether they are any, to what, and what has run."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from gateway.core import jsontext
from gateway.core.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.core.model import Json, JsonObject, Progress
from gateway.core.wire import Answer
from gateway.protocols.common.replies import MAX_DEPTH, BrokenReplyError, strip_bom
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from gateway.protocols.mcp.wire import (
    HEADER_MISMATCH,
    INVALID,
    MISSING_CAPABILITY,
    PARAMS,
    PREFIX,
    UNSUPPORTED_VERSION,
    is_number,
)

# What servers say that do not know a session, or have none yet. Of those seen, all before any tool is run: Python and
# FastMCP -32600 "Session not found", TypeScript -32001 "Session not found", -32000 "Server not initialized",
# server-everything -32000 "No valid session ID provided".
NO_SESSION = re.compile("session|initializ", re.IGNORECASE)
NO_REVISION = re.compile("session|initializ|protocol.?version", re.IGNORECASE)
# The same in errors and texts that may be a tool's or a proxy's, which may have sessions of their own to speak of.
ENDED_SESSION = re.compile(
    r"\b(?:no|not|cannot|failed to|invalid|unknown|unrecognized|missing|expired|stale|inactive|bad|requires?)(?:\b|_)"
    r"[^.;]{0,30}(?:\b|_)(?:mcp.)?session"
    r"|(?:\b|_)session.{0,80}(?:\b|_)(?:not|no longer|invalid|unknown|missing|expired|terminated|closed|ended"
    r"|over|gone|lost|dead|deleted|destroyed|revoked|required|inactive|stale|timed out|mismatch)(?:\b|_)"
    r"|\b(?:session(?:Expired|NotFound|Invalid|Terminated|Closed)|(?:invalid|unknown|no|expired)SessionI?d?)\b"
    r"|\bno (?:active |valid )?transport\b"
    r"|\bbefore initialization\b|\bnot (?:been |yet )?initiali[sz]ed\b",
    re.IGNORECASE | re.DOTALL,
)
OF_TRANSPORTS = (INVALID, *range(-32019, -31999))  # codes of such errors
MAX_DENIAL_BYTES = 16 * 1024  # of an answer that denies a session
MAX_DENIAL = 1024  # characters of what it says that are looked at
# Statuses with which servers deny a session without another word: text, if any, for people.
DENIALS, GONE = (400, 410, 422), 410
COOKIE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)=[\x21\x23-\x3a\x3c-\x7e\x22]*")
MAX_COOKIES_BYTES = 4096
MAX_PROGRESS = 1024  # characters of a message; it is shown in one line
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY)  # none but a modern server says these


def message_of(reply: Answer) -> JsonObject:
    """The one message in an answer. Raises BrokenReplyError, and BACKEND_UNAVAILABLE if nothing is at its path."""
    text = strip_bom(reply.body)
    document: Json = None
    reason = "not a JSON object"
    if len(text) > jsontext.ALWAYS_HERE_BYTES and jsontext.is_wide(text):
        reason = "it holds too many values"
    else:
        try:
            document = jsontext.decode_answer(text, MAX_DEPTH)
        except jsontext.JsonError as exc:
            reason = f"not JSON: {exc}"
    if reply.status == 404 and not (isinstance(document, dict) and isinstance(document.get("error"), dict)):
        raise GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail="nothing is at its path (404)")
    if not isinstance(document, dict):
        raise BrokenReplyError(reason if reply.status == 200 else f"status {reply.status}")
    return document


def error_in(reply: Answer) -> Json:
    """The message in the body of a failed request; None if that is no JSON, or much."""
    if len(reply.body) > jsontext.ALWAYS_HERE_BYTES:
        return None
    try:
        return jsontext.decode_answer(strip_bom(reply.body), MAX_DEPTH)
    except jsontext.JsonError:
        return None


def cookies_of(reply: Answer) -> bytes:
    """The cookies that an answer sets, as a header sends them back (RFC 6265, 4.2); those that are too many are not."""
    cookies: dict[bytes, bytes] = {}
    for name, value in reply.headers:
        if name == b"set-cookie" and (match := COOKIE.match(value)) is not None:
            cookies[match[1]] = match[0]
    text = b"; ".join(cookies.values())
    return text if len(text) <= MAX_COOKIES_BYTES else b""


class _ProgressParams(Struct):
    progress: float
    progressToken: Json = None  # noqa: N815 - as it is written
    total: float | None = None
    message: str | None = None


_read_progress = msgspec.json.Decoder(_ProgressParams).decode


def progress_of(params: bytes | Raw, token: int) -> Progress | None:
    """How far a call has come, by a notification with its token; None for any other."""
    try:
        notice = _read_progress(params)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not is_number(notice.progressToken, token):
        return None
    message = None if notice.message is None else notice.message[:MAX_PROGRESS]
    return Progress(notice.progress, notice.total, message)


def check_id(message: Json, id_: int) -> None:
    """Raises BrokenReplyError for the response to another request; an error need not have an id."""
    if isinstance(message, dict):
        answered = message.get("id")
        if answered is None and message.get("error") is not None:
            return
        if not is_number(answered, id_):
            raise BrokenReplyError("it answers another request")


class _DenialError(Struct):
    code: int = 0
    message: str = ""
    data: Raw = Raw(b"")

    @property
    def text(self) -> str:
        """What it says, as far as it is looked at."""
        return f"{self.message[:MAX_DENIAL]} {bytes(self.data)[:MAX_DENIAL].decode('utf-8', 'replace')}"


class _DenialResponse(Struct):
    error: _DenialError


_read_error = msgspec.json.Decoder(_DenialResponse).decode


class Denial(Struct, frozen=True):
    """What a server does not know: our `session` or our `revision`.

    `is_proof`: it has run nothing, since servers that answer so do it before they look at a request.
    """

    of: Literal["session", "revision"]
    is_proof: bool


def denial_in(session: NegotiatedSession, reply: Answer) -> Denial | None:
    """What an answer denies; None for one that does not speak of that.

    A healthy session that is taken for a dead one costs a handshake, a dead one that is kept costs every call: so real
    servers' words count whatever the status.
    """
    status, body = reply.status, reply.body
    if status < 400 and (len(body) > MAX_DENIAL_BYTES or b'"error"' not in body):
        return None  # nearly all
    error = _error_in(body)
    if status == 404 and session.id is not None:  # by a tool of some server's, if the error speaks of neither
        return Denial("session", error is None or NO_SESSION.search(error.message[:MAX_DENIAL]) is not None)
    if status == 400 and error is not None and (denied := _refused_by_transport(session, error)) is not None:
        return denied
    text = body[:MAX_DENIAL].decode("utf-8", "replace") if error is None else error.text
    is_mute = session.id is not None and status in (DENIALS if error is None else (GONE,))
    if not (is_mute or ENDED_SESSION.search(text)):
        return None
    return Denial("revision" if session.is_modern else "session", False)


def _error_in(body: bytes) -> _DenialError | None:
    if len(body) > MAX_DENIAL_BYTES:
        return None
    try:
        return _read_error(strip_bom(body)).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _refused_by_transport(session: NegotiatedSession, error: _DenialError) -> Denial | None:
    """What a 400 says that comes before any tool."""
    code, message = error.code, error.message[:MAX_DENIAL]
    if code == UNSUPPORTED_VERSION:
        return Denial("revision", True)
    if session.is_modern:
        return Denial("revision", True) if code in OF_TRANSPORTS and NO_REVISION.search(message) else None
    if code in MODERN_ERRORS or (code == PARAMS and PREFIX in message):
        return Denial("revision", True)
    return Denial("session", True) if code in OF_TRANSPORTS and NO_SESSION.search(message) else None
