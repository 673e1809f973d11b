"""Answers of tool servers to calls, read in any shape real ones send.

Enveloped (OTC, OXP), flat (OXP, the LangChain family), the RFC's `output`, and error bodies of all of them.
"""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway.core import jsontext
from gateway.core.errors import CODE, UNAVAILABLE, ErrorCode, FailureCode, GatewayError
from gateway.core.model import Invocation, Json, JsonObject, ToolFailure, ToolResult
from gateway.core.ports import LargeReply
from gateway.core.wire import Answer
from gateway.protocols.common.fields import NO_REASON, duration, string

ERROR_MEMBERS = frozenset(
    {"message", "developer_message", "can_retry", "additional_prompt_content", "retry_after_ms", "missing_requirements"}
)
OUR_CODES: tuple[Json, ...] = (*ErrorCode, *FailureCode)  # no set: what is looked for may be a list
# Codes of another gateway's refusals that say more than `invalid_request`: these are passed on.
PASSED_ON = (
    *(ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.TOOL_NOT_FOUND),
    *(ErrorCode.CALL_CONFLICT, ErrorCode.RESULT_EXPIRED),
)
TEXTS = ("message", "detail", "error")  # the members in which a refusal may say why
MAX_DEPTH = jsontext.MAX_DEPTH + 8  # what a caller may send comes back in some dialect's wrapping
MAX_RETRY_AFTER_MS = 24 * 3600 * 1000  # a day: no caller should wait longer
SECONDS = re.compile(rb"([0-9]{1,9})(\.[0-9]{1,9})?")
PLAIN = (None, b"application/json")  # what nearly all say
AS_TEXT = b"text/plain"  # what some frameworks say, Go's among them, unless they are told that it is JSON
# What frameworks answer, as JSON, where nothing is at a path: Starlette, Express, Nest, Fastify, Laravel, Werkzeug,
# Spring, Kong. A tool that is not there is another matter.
NO_SUCH_PATH = re.compile(
    r"(?:404 )?Not Found\.?|Cannot POST /\S*|Route POST:/\S* not found|The route \S+ could not be found\."
    r"|(?:404 Not Found: )?The requested URL was not found on the server\..*|No static resource \S+\."
    r"|no Route matched with those values",
    re.IGNORECASE | re.DOTALL,
)
CODE_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
MAX_SENTENCE = 1024  # characters of what a framework says about a path
MAX_DATE = 64  # characters; an HTTP date has 33 at most


class BrokenReplyError(Exception):
    """An answer that cannot be read; the tool may have run. The text says why, for our log.

    `message` is for the caller: what the tool server itself says in it, or which setting does not fit it.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason)
        self.message = message


def decode_reply(reply: Answer, invocation: Invocation, document: Json = None) -> ToolResult:
    """Reads an answer to a call; `document` is the body of a 200 if it was decoded already.

    Raises GatewayError when the tool server refused the call before running anything, BrokenReplyError when the answer
    cannot be read.
    """
    if reply.status == 200:
        return _result(reply, _document(reply, document), invocation)
    if reply.status in (400, 404, 422):
        raise _refusal(reply, invocation)
    if reply.status in (401, 403):
        raise not_ours(f"the tool server refused our credential ({reply.status})")
    if reply.status in (408, 429, 503):
        return busy(reply, invocation)
    if reply.status >= 500:
        return ToolResult(failure=ToolFailure(message="The tool failed inside its server."))
    raise BrokenReplyError(f"status {reply.status}")


class NotOursError(GatewayError):
    """A refusal of what the gateway itself sent along: its credential, or a secret of the route."""


def not_ours(detail: str) -> NotOursError:
    """That refusal; `detail` is for our log."""
    return NotOursError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail)


def _document(reply: Answer, document: Json = None) -> JsonObject:
    content_type = reply.header(b"content-type")
    if content_type not in PLAIN and not _may_be_json(content_type.lower()):
        raise BrokenReplyError("the content type is not JSON")
    if document is None:
        if len(reply.body) > jsontext.ALWAYS_HERE_BYTES and jsontext.is_wide(reply.body):
            raise BrokenReplyError("it holds too many values")
        try:
            document = jsontext.decode_answer(strip_bom(reply.body), MAX_DEPTH)
        except jsontext.JsonError as exc:
            raise BrokenReplyError(f"not JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise BrokenReplyError("not a JSON object")
    return document


def _may_be_json(content_type: bytes) -> bool:
    return b"json" in content_type or content_type.partition(b";")[0].strip() == AS_TEXT


def reading(reply: Answer, *members: bytes) -> LargeReply | None:
    """How a large answer is read that is a document with the value under one of these members; None for a small one."""
    if reply.status != 200 or len(reply.body) <= jsontext.ALWAYS_HERE_BYTES:
        return None
    return LargeReply(strip_bom(reply.body), members)


def strip_bom(body: bytes) -> bytes:
    """The body without the byte order mark that some write in front of JSON; it may be ignored (RFC 8259, 8.1)."""
    return body.removeprefix(BOM_UTF8)


def _result(reply: Answer, document: JsonObject, invocation: Invocation) -> ToolResult:
    result = document
    if "success" not in document:
        for envelope in ("result", "response"):  # `response` is the RFC's own OpenAPI file
            if isinstance(document.get(envelope), dict):
                result = document[envelope]
    success = result.get("success")
    if not isinstance(success, bool):
        raise BrokenReplyError("no boolean 'success'")
    call_id = result.get("call_id")
    if call_id is not None and call_id != invocation.call_id:
        raise BrokenReplyError("it answers another call")
    body = result
    if isinstance(result.get("output"), dict) and ("value" if success else "error") in result["output"]:
        body = result["output"]  # of the RFC; in others an extra member that means nothing
    duration_ms = duration(result["duration"]) if "duration" in result else None
    if success:
        return ToolResult(value=_value(body), duration_ms=duration_ms, value_bytes=len(reply.body))
    error = body.get("error")
    if isinstance(error, dict) and "missing_requirements" in error:
        refusal = _requirements_refusal(error.get("message"), error["missing_requirements"], invocation)
        if refusal is not None:
            raise refusal
    failure = _failure(error, reply.header(CODE))
    return ToolResult(failure=failure, duration_ms=duration_ms, tool_code=code_word(failure.extras.get("tool_code")))


def _value(body: JsonObject) -> Json:
    """The value of a result; some have it as `output`, where the RFC has it one level deeper."""
    output = body.get("output")
    return output if "value" not in body and not isinstance(output, dict) else body.get("value")


def _failure(error: Json, header_code: bytes | None) -> ToolFailure:
    """Reads an error; `header_code` is the `Toolgate-Code` of the answer, as another gateway on the way has it."""
    if not isinstance(error, dict):
        error = {"message": error}
    message = error.get("message")
    extras = {key: value for key, value in error.items() if key not in ERROR_MEMBERS}
    can_retry, code = error.get("can_retry") is True, ""
    if "code" in extras:
        own = extras.pop("code")
        if header_code is not None and own in OUR_CODES and header_code == own.encode("ascii"):
            # A call that still runs and may not be joined would never be over for a caller that goes by the code.
            code = "" if own == FailureCode.STILL_RUNNING and not can_retry else own
        else:  # a tool's own, which must not pass for one of ours
            extras.setdefault("tool_code", own)
    return ToolFailure(
        message=string(message) or NO_REASON,
        developer_message=string(error.get("developer_message")),
        can_retry=can_retry,
        retry_after_ms=_milliseconds(error.get("retry_after_ms")),
        prompt_hint=string(error.get("additional_prompt_content")),
        extras=extras,
        code="" if code == FailureCode.TOOL_ERROR else code,
    )


def code_word(code: Json) -> str:
    """The code of a tool server's as our log has it: a short word or an integer, since texts may hold anything."""
    text = str(code) if isinstance(code, int) else code
    return text if isinstance(text, str) and CODE_WORD.fullmatch(text) else ""


def _milliseconds(value: Json) -> int | None:
    """OTC and OXP schemas say integer, one page says number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return int(min(value, MAX_RETRY_AFTER_MS))


def busy(reply: Answer, invocation: Invocation) -> ToolResult:
    """The outcome of a call that a tool server has no time for (429 and 503)."""
    seconds = retry_after_s(reply)
    after_ms = None if seconds is None else seconds * 1000
    code, can_retry = FailureCode.BACKEND_BUSY, invocation.idempotent
    message = "The tool server is busy."
    return ToolResult(failure=ToolFailure(message=message, can_retry=can_retry, retry_after_ms=after_ms, code=code))


def retry_after_s(reply: Answer) -> int | None:
    """`Retry-After` in seconds, rounded up (RFC 9110, 10.2.3); None if it is neither a number nor a date.

    A date is held against the answer's own `Date`: that takes no clock of ours, nor that both clocks agree.
    """
    after = reply.header(b"retry-after") or b""
    number = SECONDS.fullmatch(after)
    if number is not None:
        seconds = int(number[1]) + (number[2] is not None and int(number[2][1:]) > 0)
    else:
        then, now = http_date(after), http_date(reply.header(b"date") or b"")
        if then is None or now is None:
            return None
        seconds = max(math.ceil((then - now).total_seconds()), 0)
    return min(seconds, MAX_RETRY_AFTER_MS // 1000)


def http_date(text: bytes) -> datetime | None:
    """Reads an HTTP date in any of its three forms (RFC 9110, 5.6.7)."""
    try:
        read = parsedate_to_datetime(text[:MAX_DATE].decode("latin-1"))
    except (ValueError, OverflowError):
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)  # that of C's asctime() names no zone


def is_unknown_path(reply: Answer) -> bool:
    """Whether a 404 is about the path and not about a tool, although frameworks dress it like an error body."""
    if reply.status != 404:
        return False
    document = _known_error(reply)
    if document is None:
        return True
    texts = [text for member in TEXTS if isinstance(text := document.get(member), str)]
    if any(len(text) > MAX_SENTENCE for text in texts):
        return False
    return all(not text or NO_SUCH_PATH.fullmatch(text) for text in texts) and any(texts)


def _known_error(reply: Answer) -> JsonObject | None:
    """The body of a refusal if it has a known error shape; None if it has not."""
    try:
        document = _document(reply)
    except BrokenReplyError:
        return None
    return document if any(isinstance(document.get(member), str | list) for member in TEXTS) else None


def _refusal(reply: Answer, invocation: Invocation) -> GatewayError:
    document = _known_error(reply)
    if document is None:
        raise BrokenReplyError(f"status {reply.status} without a known error body")
    texts = (document.get(member) for member in TEXTS)
    message = next((text for text in texts if isinstance(text, str) and text), "The tool server refused the call.")
    detail = f"the tool server answered {reply.status}: {document.get('developer_message', '')!s:.500}"
    if reply.status == 400 and "missing_requirements" in document:
        refusal = _requirements_refusal(message, document["missing_requirements"], invocation)
        if refusal is not None:
            return refusal
    if reply.status == 404:
        return GatewayError(ErrorCode.TOOL_NOT_FOUND, message, detail=detail)
    # FastAPI's own 422 has `detail` alone and is about the request, not about the tool's input.
    if reply.status == 422 and "message" in document:
        errors = document.get("parameter_errors")
        parameters = None
        if isinstance(errors, dict):
            parameters = {name: text for name, text in errors.items() if isinstance(text, str)}
        return GatewayError(ErrorCode.INVALID_ARGUMENTS, message, detail=detail, parameters=parameters)
    header_code = reply.header(CODE)
    passed_on = (code for code in PASSED_ON if document.get("code") == code and header_code == code.encode("ascii"))
    code = next(passed_on, ErrorCode.INVALID_REQUEST)
    return GatewayError(code, message, detail=detail, retry_after_s=retry_after_s(reply))


def _missing(missing: Json) -> JsonObject:
    """`missing_requirements` reduced to what OXP 1.0 names; URLs are judged by the backend, which knows its origin.

    Empty if it asks for nothing, as an empty list does: many a server writes out every member.
    """
    requirements: JsonObject = {}
    if not isinstance(missing, dict):
        return requirements
    challenges = missing.get("authorization")
    if isinstance(challenges, list) and challenges:
        requirements["authorization"] = [challenge for entry in challenges if (challenge := _challenge(entry))]
    secrets = missing.get("secrets")
    if isinstance(secrets, list) and secrets:
        ids = (entry.get("id") for entry in secrets if isinstance(entry, dict))
        requirements["secrets"] = [{"id": secret} for secret in ids if isinstance(secret, str)]
    if missing.get("user_id") is True:
        requirements["user_id"] = True
    return requirements


def _requirements_refusal(message: Json, raw: Json, invocation: Invocation) -> GatewayError | None:
    """The refusal for what is said to be missing; None if that names nothing.

    Secrets that the route supplies are left out: only the operator can do anything about them.
    """
    missing = _missing(raw)
    if secrets := missing.pop("secrets", None):
        routes = invocation.context.secrets.keys() - set(invocation.tool.requires.secrets)
        if unmet := [secret for secret in secrets if secret["id"] not in routes]:
            missing["secrets"] = unmet
        elif not missing:
            return not_ours("the tool server refused a secret of the route")
    if not missing:
        return None
    text = string(message) or "The tool needs something more before it can run."
    return GatewayError(ErrorCode.MISSING_REQUIREMENTS, text, missing=missing)


def _challenge(entry: Json) -> JsonObject | None:
    if not isinstance(entry, dict):
        return None
    challenge = {key: entry[key] for key in ("id", "url", "check_url") if isinstance(entry.get(key), str)}
    return challenge if challenge.keys() >= {"id", "url"} else None


def in_band_challenge(value: Json) -> GatewayError | None:
    """The LangChain family's way to ask for authorization: a success whose value says so."""
    if not isinstance(value, dict) or value.get("auth_required") is not True:
        return None
    challenge = _challenge({"id": str(value.get("auth_id")), "url": value.get("auth_url")})
    if challenge is None:
        return None
    missing = {"authorization": [challenge]}
    return GatewayError(ErrorCode.MISSING_REQUIREMENTS, "Authorization is needed first.", missing=missing)
