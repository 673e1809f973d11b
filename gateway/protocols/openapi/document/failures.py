"""What an answer that is no success is to a caller: the service's own words, and whether to try again.

What provably did not run because of a credential is a GatewayError; everything else that was sent is a failure.
"""

from __future__ import annotations

import math
import re

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FailureCode, GatewayError
from gateway.core.model import Invocation, Json, ToolFailure, ToolResult
from gateway.core.wire import Answer
from gateway.protocols.common.replies import (
    MAX_DEPTH,
    MAX_RETRY_AFTER_MS,
    BrokenReplyError,
    http_date,
    not_ours,
    retry_after_s,
    strip_bom,
)
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.plan import CallPlan
from gateway.protocols.openapi.document.texts import MAX_MESSAGE, MAX_PLAIN, message_of, one_line

BUSY = (408, 425, 429, 503)
MOVED = (300, 301, 302, 303, 307, 308)
NOT_SUPPORTED = 501  # the one above 499 that says nothing of how the service is
UNKNOWN_OUTCOME = (502, 504)  # a proxy has sent it on, and knows no more
EPOCH = 1_000_000_000  # a reset above this is a time, one below it seconds
RESETS = (b"ratelimit-reset", b"x-ratelimit-reset")
CHALLENGE = b"www-authenticate"
INSUFFICIENT = re.compile(rb'error\s*=\s*"?insufficient_scope\b', re.IGNORECASE)
SCOPE = re.compile(rb'\bscope\s*=\s*"([\x20-\x21\x23-\x5b\x5d-\x7e]{1,2048})"', re.IGNORECASE)
MAX_DEVELOPER = 2048  # characters

SENTENCES = {
    400: "The service refused the request",
    402: "The service asks for payment first",
    403: "The service does not allow this",
    404: "The service did not find it",
    405: "The service does not know this operation",
    406: "The service cannot answer in a form that was asked for",
    409: "The service is in a state that does not allow this",
    410: "It is no longer there",
    412: "A precondition does not hold",
    413: "The request is too large for the service",
    414: "The request is too large for the service",
    415: "The service does not accept a body of this type",
    422: "The service refused the request",
    428: "The service asks for a precondition",
    431: "The request is too large for the service",
    451: "The service may not show this for legal reasons",
    501: "The service does not know this operation",
}


def result_of(reply: Answer, plan: CallPlan, invocation: Invocation, location: str | None) -> ToolResult:
    """The failure in an answer; `location` is where it points, as callers may see it.

    Raises BrokenReplyError for one that is no answer to a call, and GatewayError for a credential that was refused.
    """
    status = reply.status
    if status == 303 and not plan.is_safe and plan.method != "HEAD":  # it was done, and this is where it is
        return ToolResult(value={"location": location})
    if status in MOVED:
        extras = {"status": status} if location is None else {"status": status, "location": location}
        return _failed(f"The service moved this ({status}).", extras=extras)
    if not 400 <= status < 600:
        raise BrokenReplyError(f"status {status}")
    is_limited = status in BUSY or (status == 403 and _is_limited(reply))
    if status == 401 or (status == 403 and not is_limited):
        refused = _credential_refusal(reply, plan, invocation)
        if refused is not None:
            return refused
    document = _document(reply)
    message = message_of(document) if document is not None else _plain(reply)
    if is_limited:
        return _busy(reply, message, invocation)
    if status < 500 or status == NOT_SUPPORTED:
        return _refused(reply, message, document, plan)
    outcome = "unknown" if status in UNKNOWN_OUTCOME else "tool_error"
    return ToolResult(
        failure=ToolFailure(
            message=f"The service failed ({status}): {message}" if message else f"The service failed ({status}).",
            can_retry=invocation.idempotent,
            retry_after_ms=wait_ms(reply),
            extras={"status": status},
            outcome=outcome,
        )
    )


def _failed(message: str, **more: Json) -> ToolResult:
    return ToolResult(failure=ToolFailure(message=message, **more))


def _refused(reply: Answer, message: str, document: Json, plan: CallPlan) -> ToolResult:
    """A refusal by the service itself, in its words."""
    status = reply.status
    if not message:
        message = f"{SENTENCES.get(status, 'The service refused the request')} ({status})."
    is_under_way = status == 409 and bool(plan.key_header)  # by the same key
    body = one_line(reply.body.decode("utf-8", "replace"), MAX_DEVELOPER) if document else None
    return _failed(
        message,
        developer_message=body if body != message else None,
        can_retry=is_under_way,
        retry_after_ms=wait_ms(reply) if is_under_way else None,
        extras={"status": status},
    )


def _busy(reply: Answer, message: str, invocation: Invocation) -> ToolResult:
    """A refusal by a service that has no time now."""
    return _failed(
        message or f"The service is busy ({reply.status}).",
        can_retry=invocation.idempotent,
        retry_after_ms=wait_ms(reply),
        extras={"status": reply.status},
        code=FailureCode.BACKEND_BUSY,
    )


# Credentials.


def _credential_refusal(reply: Answer, plan: CallPlan, invocation: Invocation) -> ToolResult | None:
    """What a 401 or 403 means; None for one that is about what was asked for, and not about a credential.

    Raises MISSING_REQUIREMENTS for what the caller lent, or should have, and BACKEND_UNAVAILABLE for our own.
    """
    tokens = [credential.id for credential in plan.access.lent if not credential.is_secret]
    if reply.status == 403:
        challenges = (value for name, value in reply.headers if name == CHALLENGE and INSUFFICIENT.search(value))
        challenge = next(challenges, None)
        if challenge is None or not tokens:
            return None
        scope = SCOPE.search(challenge)
        message = "The service asks for scopes that the token does not have."
        return _ask_for(tokens, message, scope[1].decode("ascii").split() if scope else [], invocation)
    if tokens:
        return _ask_for(tokens, "The service does not accept the token, or needs one.", [], invocation)
    # Only the operator can do anything about a secret that the route supplies: the tool does not ask for that.
    needed = invocation.tool.requires.secrets
    secrets = [
        {"id": credential.id} for credential in plan.access.lent if credential.is_secret and credential.id in needed
    ]
    if not secrets:
        raise not_ours("the service does not accept our credential (401), or wants one")
    message = "The service does not accept the secret, or needs one."
    raise GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing={"secrets": secrets})


def _ask_for(tokens: list[str], message: str, scopes: list[str], invocation: Invocation) -> ToolResult:
    """Raises MISSING_REQUIREMENTS if it is known where the user grants access; else it is a failure."""
    urls = invocation.authorization_urls
    if scopes:
        message += f" It asks for: {' '.join(scopes)}."
    message = one_line(message, MAX_MESSAGE)
    # No more than protocols have: the scopes of each provider stand in the definition of the tool.
    if providers := [{"id": provider, "url": urls[provider]} for provider in tokens if provider in urls]:
        raise GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing={"authorization": providers})
    return _failed(message)


# What is said.


def _document(reply: Answer) -> Json:
    """The JSON in a refusal; None if there is none that is worth reading."""
    body, content_type = reply.body, reply.header(b"content-type")
    if not body or len(body) > jsontext.ALWAYS_HERE_BYTES:
        return None
    if content_type is not None and not media.is_json(media.essence(content_type.decode("latin-1"))):
        return None
    try:
        return jsontext.decode_answer(strip_bom(body), MAX_DEPTH)
    except jsontext.JsonError:
        return None


def _plain(reply: Answer) -> str:
    """The text of a refusal in plain text, which a page for browsers is not."""
    content_type = (reply.header(b"content-type") or b"").decode("latin-1")
    if media.essence(content_type) != "text/plain":
        return ""
    text = (media.decoded(reply.body[: 4 * MAX_PLAIN], content_type) or "").strip()
    return "" if text.startswith("<") else one_line(text, MAX_PLAIN)


# When to try again.


def wait_ms(reply: Answer) -> int | None:
    """How long to wait, by `Retry-After` or by the reset of a limit, in milliseconds; a day at most."""
    seconds: float | None = retry_after_s(reply)
    if seconds is None:
        seconds = next((reset for name in RESETS if (reset := _reset_s(reply, name)) is not None), None)
    return None if seconds is None else min(math.ceil(seconds * 1000), MAX_RETRY_AFTER_MS)


def _reset_s(reply: Answer, name: bytes) -> float | None:
    """The seconds until a limit is reset. A time is held against the `Date` of the answer."""
    text = (reply.header(name) or b"")[:32]
    if not text.isdigit():
        return None
    seconds = int(text)
    if seconds <= EPOCH:
        return seconds
    now = http_date(reply.header(b"date") or b"")
    return None if now is None else max(seconds - now.timestamp(), 0)


def _is_limited(reply: Answer) -> bool:
    """Whether a 403 is about a rate limit, as GitHub has it."""
    return reply.header(b"retry-after") is not None or reply.header(b"x-ratelimit-remaining") == b"0"
