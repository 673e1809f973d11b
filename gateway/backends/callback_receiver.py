"""Reads what tool servers post to the callback URLs of their calls, and ends the calls.

Reactive Agent Protocol: Transport, Tool Result and the other messages. Everything needed of a call comes with the
message, so that its outcome counts at every replica, also at one that does not have its backend.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import assert_never

from gateway.backends.callback_notices import Notices
from gateway.backends.challenges import is_https_or_loopback
from gateway.backends.exchange import BROKEN
from gateway.dialects import callback
from gateway.errors import FailureCode
from gateway.model import Decode, ToolFailure, ToolResult
from gateway.offload import Checker, OffloadError, OverrunError
from gateway.ports import Outcomes

log = logging.getLogger("gateway.backends")

JSON = "application/json"
MAX_AUTH_URL_BYTES = 8 * 1024  # what browsers and servers take; more does not fit what is remembered of a call
MAX_ABSENT = 256  # backends that are not configured here whose receivers are kept, so that they warn once
NOT_ALLOWED = ToolResult(
    failure=ToolFailure(
        message="The tool server asked for something that is not allowed here.", code=FailureCode.BROKEN_ANSWER
    )
)
TOO_LARGE = ToolResult(
    failure=ToolFailure(
        message="The tool has run. Its result is larger than the gateway accepts.", code=FailureCode.RESULT_TOO_LARGE
    )
)
UNANSWERED = ToolResult(
    failure=ToolFailure(
        message="The tool server asked for a choice and could not be answered; the tool may have run.",
        outcome="unknown",
    )
)


class CallbackReceiver:
    """Takes callbacks for calls of one backend. A backend that is not configured here has no `notices`."""

    def __init__(self, backend: str, outcomes: Outcomes, checker: Checker, notices: Notices | None = None) -> None:
        self._backend = backend
        self._outcomes = outcomes
        self._checker = checker
        self._notices = notices
        self._has_warned = False

    async def receive(  # noqa: C901 - one case for each kind of message
        self,
        call_id: str,
        group: str,
        body: bytes | None,
        content_type: str | None,
        *,
        run: str = "",
        ended: bool = False,
        decode: Decode = "auto",
        failure_patterns: Sequence[re.Pattern[str]] = (),
    ) -> int:
        """Takes what was posted to the callback URL of a run of a call; returns the HTTP status of the answer.

        `body` is None for one that is too large, which ends the call. Tool servers do not repeat what was answered with
        4xx, and most repeat nothing at all. A message after a call has `ended` is accepted and dropped, questions to
        its user too (Tool Result, Security).
        """
        id_ = callback.invocation_id(call_id, run)
        if body is None:
            self._log_refusal("it is too large")
            await self._end(call_id, id_, group, TOO_LARGE)
            return 413
        if content_type != JSON:
            self._check_type(content_type)
        if callback.may_take_long(body, failure_patterns):
            message = await self._read_apart(body, id_, group, decode, failure_patterns)
            if message is None:
                return 503
        else:
            message = callback.decode_callback(body, id_, group, decode=decode, failure_patterns=failure_patterns)
        match message:
            case callback.Result() | callback.Consent() | callback.Choice() if ended:
                self._log_late(call_id)
            case callback.Result(result, subscription):
                await self._end(call_id, id_, group, result, cancels=subscription)
            case callback.Consent():
                return await self._ask_for_consent(call_id, id_, group, message.auth_url)
            case callback.Choice():
                return await self._choose(call_id, id_, group, message)
            case callback.Event() | callback.View():
                pass  # callers of the gateway have no way to see it
            case callback.Refused(reason, status, settles):
                self._log_refusal(reason)
                if settles:
                    await self._end(call_id, id_, group, BROKEN)
                return status
            case _:
                assert_never(message)
        return 200

    async def _read_apart(
        self, body: bytes, id_: str, group: str, decode: Decode, failure_patterns: Sequence[re.Pattern[str]]
    ) -> callback.Callback | None:
        """Reads a message in another process; None if that has no time for it."""
        try:
            return await self._checker.callback(body, id_, group, decode, failure_patterns, self._backend)
        except OverrunError:
            return callback.Refused("it takes too long to be read", settles=True)
        except OffloadError:
            return None

    def _check_type(self, content_type: str | None) -> None:
        """Takes any content type: the work is done, and refusing its result would lose it."""
        is_json = content_type is not None and content_type.partition(";")[0].strip().lower() == JSON
        if not is_json and not self._has_warned:
            self._has_warned = True
            log.warning("a tool server does not call back with application/json", extra={"backend": self._backend})

    async def _end(self, call_id: str, id_: str, group: str, result: ToolResult, *, cancels: bool = False) -> None:
        """Ends a call; `cancels` also tells the tool server to stop the invocation `id_`.

        Only one message ends a call, on whatever replicas they arrive, so the tool server gets one notice.
        """
        if not await self._outcomes.settle(call_id, result):
            self._log_late(call_id)
        elif self._notices is None:
            if cancels:
                extra = {"backend": self._backend, "call_id": call_id}
                log.warning("a tool server that is not configured here was not told to stop", extra=extra)
        elif cancels:
            self._notices.cancel(id_, group)
        else:
            self._notices.end(id_, group)

    def _log_late(self, call_id: str) -> None:
        log.info("a late or repeated message was dropped", extra={"backend": self._backend, "call_id": call_id})

    async def _ask_for_consent(self, call_id: str, id_: str, group: str, auth_url: str) -> int:
        is_short = len(auth_url.encode()) <= MAX_AUTH_URL_BYTES
        if not is_short or not is_https_or_loopback(auth_url):
            self._log_refusal("its auth_url is neither https nor loopback" if is_short else "its auth_url is too long")
            await self._end(call_id, id_, group, NOT_ALLOWED, cancels=True)
            return 400
        await self._outcomes.challenge(call_id, {"id": call_id, "url": auth_url})
        return 200

    async def _choose(self, call_id: str, id_: str, group: str, choice: callback.Choice) -> int:
        """Answers with the default, as if the user had dismissed the question (User Choice, Dismissal).

        A question that cannot be answered ends its call: it is asked once, and no outcome comes without an answer.
        """
        if self._notices is None:
            self._log_refusal("its tool server is not configured here, and cannot be answered")
            await self._end(call_id, id_, group, UNANSWERED, cancels=True)
            return 400
        if not self._notices.choose(id_, choice):
            self._log_refusal("its response_url is at an origin that is not allowed")
            await self._end(call_id, id_, group, NOT_ALLOWED, cancels=True)
            return 400
        return 200

    def _log_refusal(self, reason: str) -> None:
        log.warning("a callback was refused", extra={"backend": self._backend, "reason": reason})


def absent_receivers(outcomes: Outcomes, checker: Checker) -> Callable[[str], CallbackReceiver]:
    """Makes receivers for backends that are not configured here, by their names."""

    @lru_cache(MAX_ABSENT)
    def receiver(backend: str) -> CallbackReceiver:
        log.info("callbacks come for a backend that is not configured here", extra={"backend": backend})
        return CallbackReceiver(backend, outcomes, checker)

    return receiver
