"""Answers of an RCRT server, and what is wrong with them: success is 200, errors are plain text."""

from __future__ import annotations

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.model import Json
from gateway.net.client import Reply, TransportError
from gateway.protocols.rcrt.breadcrumbs import MAX_DEPTH

MAX_REASON = 200  # characters of a plain-text error that go to our log


class AnswerError(Exception):
    """An answer that is not the 200 that was hoped for; the text is for our log."""

    def __init__(self, status: int, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"status {status}: {reason}" if reason else f"status {status}")
        self.status = status
        self.retry_after_s = retry_after_s


class BrokenAnswerError(AnswerError):
    """A 200 from the server itself that nothing can be made of."""


class WideAnswerError(BrokenAnswerError):
    """An answer that would take too long to read."""


FAILURES = (TransportError, AnswerError, GatewayError)  # all that a request may end in, besides an answer


def decode(reply: Reply) -> Json:
    """Reads the body of a 200. Raises BrokenAnswerError, or AnswerError if some proxy seems to have answered.

    WideAnswerError where reading it would hold up the event loop.
    """
    check_type(reply)
    if jsontext.is_wide(reply.body):
        raise WideAnswerError(reply.status, "it holds too many values")
    try:
        return jsontext.decode_answer(reply.body, MAX_DEPTH)
    except jsontext.JsonError as exc:
        raise BrokenAnswerError(reply.status, f"not JSON: {exc}") from exc


def check_type(reply: Reply) -> None:
    """Raises AnswerError for what is not JSON."""
    if b"json" not in (reply.header(b"content-type") or b"").lower():
        raise AnswerError(reply.status, "its type is not JSON")


def reason(reply: Reply) -> str:
    """What a plain-text error says, fit for a log line."""
    return " ".join(reply.body[: 4 * MAX_REASON].decode("utf-8", "replace").split())[:MAX_REASON]
