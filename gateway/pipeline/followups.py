"""Requests about calls that were made before, which come inside a body: how one stands, its end, its consent."""

from __future__ import annotations

from typing import TypeVar

from gateway.calls.stored_calls import StoredCalls
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.ports import Caller
from gateway.core.surfaces import CancelByRequest, FollowUp, OpenedCancel, OpenedConsent, ResumeRequest, StatusRequest
from gateway.core.wire import WireReply
from gateway.pipeline.request import Request
from gateway.pipeline.responses import ResponseBuilder

MAX_REJOIN_S = 600.0  # a caller that comes back for an answer may come again

T = TypeVar("T")


async def answer_follow_up(
    opened: FollowUp, caller: Caller, request: Request, calls: StoredCalls, responses: ResponseBuilder
) -> WireReply:
    """Answers one of them. Raises NOT_FOUND, BACKEND_UNAVAILABLE, or that a call is lost."""
    if isinstance(opened, StatusRequest | OpenedCancel | OpenedConsent):
        request.call_id = opened.call_id
    if isinstance(opened, StatusRequest):
        view = found(await calls.view(opened.call_id, caller))
        return await responses.status(view, request, opened.encoder)
    if isinstance(opened, ResumeRequest):
        back = await calls.rejoin(opened.request_key, caller, MAX_REJOIN_S)
        if back is None:
            raise opened.lost
        return await responses.kept(back, request, accepted=False)
    if isinstance(opened, CancelByRequest):
        await calls.withdraw(opened.request_key, caller)
    elif isinstance(opened, OpenedCancel):
        found(await calls.cancel(opened.call_id, caller))
    else:
        found(await calls.consent(opened.call_id, caller, opened.decision) or None)
    return opened.reply


def found(it: T | None) -> T:
    """What there is of a kept call. Raises NOT_FOUND."""
    if it is None:
        raise GatewayError(ErrorCode.NOT_FOUND, "You have no call with this id.")
    return it
