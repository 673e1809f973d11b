"""One call of a RAP server: what was sent, and what it has led to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from toolgate_conformance.callbacks import Callback, Inbox
from toolgate_conformance.checks import Exchange, SkippedError, UnfitError
from toolgate_conformance.http import Answer

TOOLSET = "/.well-known/rap-toolset"
CANCEL = "/cancel_tool_call"
CLOSE = "/close_thread"
OUTCOMES = ("tool_result", "oauth", "user_choice")  # one of these has to come (Lifecycle)
ERROR = "Error: "  # Tool Result, Error Results


class Waits(Struct, frozen=True):
    """How long the checks wait, in seconds."""

    result_s: float = 20.0  # for the outcome of a call
    ack_s: float = 5.0  # for an acknowledgement, which is due at once
    hold_s: float = 2.0  # before a callback is answered, where that is to take long
    quiet_s: float = 1.0  # for what may not come
    consent_s: float = 0.0  # for a person who consents, if one is there


class Invocation(Struct):
    """A call that was sent: its ids, what it was acknowledged with and what it has brought."""

    id: str
    group_id: str
    call_id: str | None
    inbox: Inbox
    sent_s: float = 0.0  # on the monotonic clock
    acked_s: float = 0.0
    ack: Answer | None = None
    sent: str = ""  # as a report shows it
    trouble: UnfitError | None = None  # why there is no acknowledgement
    choice: Answer | None = None  # to the answer of a question
    choice_trouble: SkippedError | UnfitError | None = None  # why a question was not answered
    cancelled_s: float | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether a result is due: real callers take each 2xx for an acknowledgement."""
        return self.ack is not None and 200 <= self.ack.status < 300

    @property
    def goes_on(self) -> bool:
        """Whether it still waits for somebody, or has a subscription that has not ended."""
        results = self.inbox.of("tool_result")
        if not results:
            return self.is_accepted
        is_subscription = any(each.document.get("subscription") is True for each in results)
        events = self.inbox.of("subscription_event")
        return is_subscription and not any(each.document.get("final") is True for each in events)

    def members(self, operation: Any, arguments: Any, context: Mapping[str, Any]) -> dict[str, Any]:
        """The request, with all that the gateway sends (Tool Invocation, Request)."""
        found: dict[str, Any] = {
            "operation": operation,
            "arguments": arguments,
            "id": self.id,
            "call_id": self.call_id,
            "callback_url": self.inbox.url,
            "group_id": self.group_id,
            "user_id": context.get("user_id"),
        }
        if "thread_ancestors" in context:
            found["thread_ancestors"] = context["thread_ancestors"]
        return found

    def acknowledgement(self) -> Answer:
        """Raises UnfitError if there is none."""
        if self.ack is None:
            raise self.trouble or UnfitError("An acknowledgement.")
        return self.ack

    def chosen(self) -> Answer:
        """What the last answer to a question was answered with. Raises SkippedError or UnfitError without one."""
        if self.choice_trouble is not None:
            raise self.choice_trouble
        if self.choice is None:
            raise SkippedError("The kit has answered no question of this call.")
        return self.choice

    def exchange(self, callback: Callback | None = None) -> Exchange:
        """The invocation, and one of its callbacks, or the last, or that there is none."""
        sent = self.sent if self.ack is None else self.ack.exchange.sent
        if callback is None:
            callback = self.inbox.callbacks[-1] if self.inbox.callbacks else None
        return Exchange(sent, "no callback" if callback is None else callback.written)

    def must(self, holds: bool, expected: str, callback: Callback | None = None) -> None:
        """Raises UnfitError with this call and a callback unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange(callback))


def text_of(result: Callback) -> str:
    """The text of a result: of the items of its `content`, or its `text` (Tool Result)."""
    document = result.document
    content = document.get("content")
    if isinstance(content, list) and content:
        return "\n".join(str(it.get("text", "")) for it in content if isinstance(it, dict) and it.get("type") == "text")
    return str(document.get("text", ""))


def default_of(question: Callback) -> int:
    """The choice to make where there is no preference; the first one if the question has no valid default."""
    choices, default = question.document.get("choices"), question.document.get("default")
    if type(default) is int and isinstance(choices, list) and 0 <= default < len(choices):
        return default
    return 0


def is_url(value: Any) -> bool:
    """Whether this is an http or https URL with a host."""
    if not isinstance(value, str):
        return False
    try:
        url = httpx.URL(value)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and url.host != ""


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
