"""Receives the outcomes that tool servers send later: `POST /callbacks/{token}` (RAP, Transport: callback URL).

The token names one run of a call, and its MAC proves that we made it, before anything is read or looked up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hmac import compare_digest

from gateway.calls.backlog import Backlog
from gateway.calls.records import DeferredCall, metadata_of
from gateway.catalogue.published import PublishedTool
from gateway.core.errors import ErrorCode, GatewayError, StateUnavailable
from gateway.core.model import CallKey, public_id
from gateway.core.ports import Receiver
from gateway.core.sealing import Digester, hashed, hashers
from gateway.core.tracing import Trace
from gateway.core.wire import Body
from gateway.pipeline.request import Request
from gateway.state.port import DONE, Record, State

log = logging.getLogger("gateway.callbacks")

PATH = "/callbacks/"
MAC_BYTES = 16
PURPOSE = b"callback "
IDENTITY = b"identity"


class CallbackTokens:
    """Makes the last segment of callback URLs: `<key of the call>.<run>.<MAC>`.

    A run has at least 128 random bits. The operator's first key makes the MAC; any of the keys may have made it.
    """

    def __init__(self, digester: Digester) -> None:
        self._hashers = hashers(digester.digests("callback"), PURPOSE, MAC_BYTES)

    def mint(self, key: CallKey, run: str) -> str:
        """A token for the outcome of this run of the call with this key."""
        signed = f"{key}.{run}"
        return f"{signed}.{hashed(self._hashers[0], signed.encode())}"

    def open(self, token: str) -> tuple[CallKey, str] | None:
        """The key of the call and its run; None for a token that was not made here."""
        if not token.isascii():  # ours are; the comparison in constant time takes no others
            return None
        signed, _, mac = token.rpartition(".")
        for hasher in self._hashers:
            if compare_digest(hashed(hasher, signed.encode()), mac):
                key, _, run = signed.partition(".")
                return CallKey(key), run
        return None


class Callbacks:
    """Answers callbacks, on whatever replica they arrive.

    `absent` makes the receiver for a backend that has none among `receivers`, by its name: while a configuration is
    rolled out, replicas have different ones. `published` finds a tool by its full id. Callbacks that come while the
    state is away wait in the `backlog`. `linked` links the trace of a callback to that of its call.
    """

    def __init__(
        self,
        state: State,
        tokens: CallbackTokens,
        *,
        receivers: Mapping[str, Receiver],
        published: Callable[[str], PublishedTool | None],
        absent: Callable[[str], Receiver],
        backlog: Backlog,
        linked: Callable[[Trace, str], Trace],
    ) -> None:
        self._state = state
        self._tokens = tokens
        self._receivers = receivers
        self._published = published
        self._absent = absent
        self._backlog = backlog
        self._linked = linked

    async def answer(self, request: Request, token: str, content_type: str | None, arriving: Body) -> ErrorCode | None:
        """Why a callback is refused; None if it is accepted. RESULT_EXPIRED: its call is over.

        BACKEND_UNAVAILABLE only if the state is away and the backlog is full, or nothing has time to read it.

        A tool server that is refused may not send its result again. So a callback that cannot be looked up now is held
        and looked up later. One that is too large or compressed leaves its call open for another that is not (RFC 9110,
        section 15.5.16).
        """
        call_and_run = self._tokens.open(token)
        if call_and_run is None:
            return ErrorCode.NOT_FOUND
        key, run = call_and_run
        request.toolgate_call_id = public_id(key)
        if request.head.headers.get(b"content-encoding", IDENTITY).lower() != IDENTITY:
            return await self._refuse_compressed(request, key)
        try:
            whole = arriving.now()
            body = await arriving.read() if whole is None else whole
        except GatewayError:
            body = None
        size = 0 if body is None else len(body)
        request.bytes_in = size
        if request.server_request is not None:
            request.server_request.keep()  # a tool server that does not wait for the answer must not cancel this
        try:
            return await self._receive(await self._find(request, key), key, run, body, content_type, request)
        except StateUnavailable:
            if body is None:
                return ErrorCode.PAYLOAD_TOO_LARGE
            if not self._absent(request.backend).may_be_message(body):
                return ErrorCode.INVALID_REQUEST
            later = partial(self._receive_later, key, run, body, content_type)
            return None if self._backlog.hold(key, size, later) else ErrorCode.BACKEND_UNAVAILABLE

    async def _find(self, request: Request, key: CallKey) -> Record | None:
        """The record of a call, whose backend is noted of the request. Raises StateUnavailable."""
        record = self._state.local_record(key) or await self._state.get(key)
        request.backend = "" if record is None else record.backend
        return record

    async def _refuse_compressed(self, request: Request, key: CallKey) -> ErrorCode:
        with suppress(StateUnavailable):
            if await self._find(request, key) is None:
                return ErrorCode.NOT_FOUND
        extra = {"backend": request.backend, "toolgate_call_id": public_id(key), "reason": "it is compressed"}
        log.warning("a callback was refused", extra=extra)
        return ErrorCode.UNSUPPORTED_MEDIA

    def are_awaited(self) -> bool:
        """Whether calls are pending here whose outcome a tool server is to send."""
        pending = self._state.pending()
        return any(pending[name] for name in self._receivers)

    @staticmethod
    def is_path(path: str) -> bool:
        """Whether requests to this path are taken for callbacks."""
        return path.startswith(PATH)

    async def _receive_later(self, key: CallKey, run: str, body: bytes | None, content_type: str | None) -> None:
        if await self._receive(await self._state.get(key), key, run, body, content_type) is not None:
            log.warning(
                "a callback that was held for the state was dropped", extra={"toolgate_call_id": public_id(key)}
            )

    async def _receive(
        self,
        record: Record | None,
        key: CallKey,
        run: str,
        body: bytes | None,
        content_type: str | None,
        request: Request | None = None,
    ) -> ErrorCode | None:
        if record is None or not record.note:  # it cannot be opened once its key was taken out of `state.keys`
            return ErrorCode.NOT_FOUND
        metadata = metadata_of(record)
        deferred = metadata.deferred
        if deferred is None or deferred.run != run:  # an earlier call had the same id
            return ErrorCode.NOT_FOUND
        if metadata.trace and request is not None:
            request.trace = self._linked(request.trace, metadata.trace)
        receiver = self._receivers.get(record.backend) or self._absent(record.backend)
        return await receiver.receive(
            key,
            metadata.group,
            body,
            content_type,
            run=run,
            ended=record.state is DONE,  # the outcome of an UNKNOWN call still counts
            decode=deferred.decode,
            failure_patterns=self._patterns(deferred, metadata.tool),
        )

    def _patterns(self, deferred: DeferredCall, tool_id: str) -> Sequence[re.Pattern[str]]:
        """The route's patterns when the call began; the present ones if those were too long to be recorded."""
        if deferred.failure_patterns is not None:
            return [re.compile(pattern) for pattern in deferred.failure_patterns]
        tool = self._published(tool_id)
        return () if tool is None else tool.route.failure_patterns
