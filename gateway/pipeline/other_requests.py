"""Requests that call no tool: lists, batches of requests, and those about calls that were made before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from gateway.calls.stored_calls import StoredCalls
from gateway.catalogue.listing import Lists
from gateway.catalogue.routing import Router
from gateway.core.errors import RETRY_AFTER_S, ErrorCode, GatewayError
from gateway.core.jsontext import encode
from gateway.core.ports import Caller
from gateway.core.surfaces import (
    CancelByRequest,
    FollowUp,
    Immediate,
    Opened,
    OpenedBatch,
    OpenedCall,
    OpenedCancel,
    OpenedConsent,
    OpenedList,
    OpenedListen,
    OpenedOverview,
    RefusedOpening,
    ResumeRequest,
    StatusRequest,
)
from gateway.core.wire import Body, StreamReply, WireReply
from gateway.pipeline.listeners import Listeners
from gateway.pipeline.request import Request
from gateway.pipeline.responses import ResponseBuilder

STARTING = "The gateway is starting and does not know all tools yet."
MAX_REJOIN_S = 600.0  # a caller that comes back for an answer may come again

T = TypeVar("T")
Answer = Callable[[Request, Body], Awaitable[WireReply]]


class CatalogueSnapshot(Protocol):
    """The snapshot of all published tools."""

    @property
    def router(self) -> Router: ...

    @property
    def ready(self) -> bool:
        """Whether each backend has listed its tools once, or has had its time."""
        ...


class OtherRequests:
    """Answers them."""

    def __init__(
        self, catalogue: CatalogueSnapshot, listeners: Listeners, calls: StoredCalls, responses: ResponseBuilder
    ) -> None:
        self._catalogue = catalogue
        self._listeners = listeners
        self._calls = calls
        self._responses = responses
        self._lists = Lists()

    async def answer(self, opened: Opened, caller: Caller, request: Request, answer: Answer) -> WireReply:
        """`answer` is the pipeline's, for each request of a batch.

        Raises NOT_READY, RATE_LIMITED, NOT_FOUND, BACKEND_UNAVAILABLE, or that a call is lost.
        """
        router = self._catalogue.router
        if isinstance(opened, OpenedList):
            if not self._catalogue.ready:  # the caller would take an incomplete list for complete
                raise GatewayError(ErrorCode.NOT_READY, STARTING, retry_after_s=RETRY_AFTER_S)
            return await self._lists.answer(router, caller, opened.encoder, request.head, opened.selection)
        if isinstance(opened, OpenedOverview):
            return opened.answer({toolkit.name: toolkit.description for toolkit in router.toolkits_for(caller)})
        if isinstance(opened, OpenedListen):
            events = self._listeners.open(caller, request.ip, opened)
            return StreamReply(status=200, headers=opened.encoder.headers, events=events)
        if isinstance(opened, OpenedBatch):
            return await _answer_batch(opened, request, answer)
        if isinstance(opened, Immediate):
            return opened.reply
        assert not isinstance(opened, OpenedCall | RefusedOpening)  # the pipeline deals with these
        return await self._answer_follow_up(opened, caller, request)

    async def _answer_follow_up(self, opened: FollowUp, caller: Caller, request: Request) -> WireReply:
        """Answers a request about a call that was made before."""
        if isinstance(opened, StatusRequest | OpenedCancel | OpenedConsent):
            request.call_id = opened.call_id
        if isinstance(opened, StatusRequest):
            view = require_call(await self._calls.view(opened.call_id, caller))
            return await self._responses.status_reply(view, request, opened.encoder)
        if isinstance(opened, ResumeRequest):
            rejoined = await self._calls.rejoin(opened.request_key, caller, MAX_REJOIN_S)
            if rejoined is None:
                raise opened.lost
            return await self._responses.call_reply(rejoined, request, accepted=False)
        if isinstance(opened, CancelByRequest):
            await self._calls.withdraw(opened.request_key, caller)
        elif isinstance(opened, OpenedCancel):
            require_call(await self._calls.cancel(opened.call_id, caller))
        else:
            require_call(await self._calls.consent(opened.call_id, caller, opened.decision) or None)
        return opened.reply


def require_call(call: T | None) -> T:
    """What there is of a kept call. Raises NOT_FOUND."""
    if call is None:
        raise GatewayError(ErrorCode.NOT_FOUND, "You have no call with this id.")
    return call


class _PartBody(Struct, frozen=True):
    """The body of one request of a batch, which is there as a whole."""

    body: bytes

    def now(self, holder: str = "") -> bytes | None:
        return self.body

    async def read(self) -> bytes:
        return self.body


async def _answer_batch(batch: OpenedBatch, request: Request, answer: Answer) -> WireReply:
    """Answers each request of a batch as if it had come alone, all at the same time. They go on if their caller leaves.

    Each counts, and is noted, as a request of its own besides the one that brought them.
    """
    if request.server_request is not None:
        request.server_request.keep()
    parts = [Request(request.head, request.surface, request.ip, request.trace, is_part=True) for _ in batch.documents]
    bodies = [_PartBody(encode(document)) for document in batch.documents]
    replies = await asyncio.gather(*map(answer, parts, bodies))
    request.parts = tuple(zip(parts, (reply.status for reply in replies), strict=True))
    return batch.encoder.encode_batch(replies)
