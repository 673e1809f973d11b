"""Reads what tool servers post to the callback URLs of their calls, and ends the calls.

Reactive Agent Protocol: Transport, Tool Result and the other messages. Everything needed of a call comes with the
message, so that its outcome counts at every replica, also at one that does not have its backend.

Only a result ends a call. A message that is refused has no effect: a truncated one, or one of somebody who tries the
URL, must not cost the result that follows. A result that comes too late to count is refused as well.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import assert_never

from gateway.core.errors import ErrorCode
from gateway.core.model import CallKey, Decode, ToolResult, public_id
from gateway.core.ports import Outcomes
from gateway.offload import ChildTasks, OffloadError, OverrunError
from gateway.protocols.rap import messages as callback
from gateway.protocols.rap.notices import Notices
from gateway.protocols.rap.reading import read_apart
from gateway.upstream.consent_links import is_https_or_loopback

log = logging.getLogger("gateway.backends")

JSON = "application/json"
MAX_AUTH_URL_BYTES = 8 * 1024  # what browsers and servers take; more does not fit what is remembered of a call
MAX_ABSENT = 256  # backends that are not configured here whose receivers are kept, so that they warn once


class CallbackReceiver:
    """Takes callbacks for calls of one backend. A backend that is not configured here has no `notices`."""

    def __init__(self, backend: str, outcomes: Outcomes, checker: ChildTasks, notices: Notices | None = None) -> None:
        self._backend = backend
        self._outcomes = outcomes
        self._checker = checker
        self._notices = notices
        self._has_warned = False

    async def receive(  # noqa: C901 - one case for each kind of message
        self,
        key: CallKey,
        group: str,
        body: bytes | None,
        content_type: str | None,
        *,
        run: str = "",
        ended: bool = False,
        decode: Decode = "auto",
        failure_patterns: Sequence[re.Pattern[str]] = (),
    ) -> ErrorCode | None:
        """Takes what was posted to the callback URL of a run of a call; returns why it is refused, if it is.

        `body` is None for one that is too large. Of a call that has `ended`, only the result that ended it is accepted
        again: its tool server may not have got our first answer (Tool Result, Security).
        """
        if body is None:
            return self._refuse(key, "it is too large", ErrorCode.PAYLOAD_TOO_LARGE)
        if content_type != JSON:
            self._check_type(content_type)
        id_ = callback.invocation_id(key, run)
        if callback.may_take_long(body, failure_patterns):
            message = await self._read_apart(body, id_, group, decode, failure_patterns)
            if message is None:
                return ErrorCode.BACKEND_UNAVAILABLE
        else:
            message = callback.decode_callback(body, id_, group, decode=decode, failure_patterns=failure_patterns)
        match message:
            case callback.ResultMessage(result, subscription):
                return await self._end(key, id_, group, result, cancels=subscription, ended=ended)
            case callback.ConsentMessage() | callback.Choice() if ended:
                return self._refuse_late(key)
            case callback.ConsentMessage():
                return await self._ask_for_consent(key, message.auth_url)
            case callback.Choice():
                return self._choose(key, id_, message)
            case callback.Event() | callback.ViewMessage():
                return None  # for a display that callers of the gateway do not have
            case callback.Refused(reason, code):
                return self._refuse(key, reason, code)
            case _:
                assert_never(message)

    async def _read_apart(
        self, body: bytes, id_: str, group: str, decode: Decode, failure_patterns: Sequence[re.Pattern[str]]
    ) -> callback.Callback | None:
        """Reads a message in another process; None if that has no time for it."""
        try:
            return await read_apart(self._checker, body, id_, group, decode, failure_patterns, self._backend)
        except OverrunError:
            return callback.Refused("it takes too long to be read")
        except OffloadError:
            return None

    def may_be_message(self, body: bytes) -> bool:
        return callback.may_take_long(body) or callback.is_message(body)

    def _check_type(self, content_type: str | None) -> None:
        """Takes any content type: the work is done, and refusing its result would lose it."""
        is_json = content_type is not None and content_type.partition(";")[0].strip().lower() == JSON
        if not is_json and not self._has_warned:
            self._has_warned = True
            log.warning("a tool server does not call back with application/json", extra={"backend": self._backend})

    async def _end(
        self, key: CallKey, id_: str, group: str, result: ToolResult, *, cancels: bool, ended: bool
    ) -> ErrorCode | None:
        """Ends a call; `cancels` also tells the tool server to stop the invocation `id_`.

        Only one message ends a call, on whatever replicas they arrive, so the tool server gets one notice.
        """
        if ended or not await self._outcomes.settle(key, result):
            return None if await self._outcomes.has_ended_with(key, result) else self._refuse_late(key)
        if self._notices is None:
            if cancels:
                extra = {"backend": self._backend, "toolgate_call_id": public_id(key)}
                log.warning("a tool server that is not configured here was not told to stop", extra=extra)
        elif cancels:
            self._notices.cancel(id_, group)
        else:
            self._notices.end(id_, group)
        return None

    async def _ask_for_consent(self, key: CallKey, auth_url: str) -> ErrorCode | None:
        if len(auth_url.encode()) > MAX_AUTH_URL_BYTES:
            return self._refuse(key, "its auth_url is too long")
        if not is_https_or_loopback(auth_url):
            return self._refuse(key, "its auth_url is neither https nor loopback")
        is_open = await self._outcomes.challenge(key, {"id": public_id(key), "url": auth_url})
        return None if is_open else self._refuse_late(key)

    def _choose(self, key: CallKey, id_: str, choice: callback.Choice) -> ErrorCode | None:
        """Answers with the default, as if the user had dismissed the question (User Choice, Dismissal)."""
        if self._notices is None:
            return self._refuse(key, "its tool server is not configured here, and cannot be answered")
        if not self._notices.choose(id_, choice):
            return self._refuse(key, "its response_url is at an origin that is not allowed")
        return None

    def _refuse(self, key: CallKey, reason: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> ErrorCode:
        extra = {"backend": self._backend, "toolgate_call_id": public_id(key), "reason": reason}
        log.warning("a callback was refused", extra=extra)
        return code

    def _refuse_late(self, key: CallKey) -> ErrorCode:
        extra = {"backend": self._backend, "toolgate_call_id": public_id(key)}
        log.info("a message for a call that is over was refused", extra=extra)
        return ErrorCode.RESULT_EXPIRED


def absent_receivers(outcomes: Outcomes, checker: ChildTasks) -> Callable[[str], CallbackReceiver]:
    """Makes receivers for backends that are not configured here, by their names."""

    @lru_cache(MAX_ABSENT)
    def receiver(backend: str) -> CallbackReceiver:
        log.info("callbacks come for a backend that is not configured here", extra={"backend": backend})
        return CallbackReceiver(backend, outcomes, checker)

    return receiver
