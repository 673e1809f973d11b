"""A refused request is freed at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import Head
from gateway.pipeline.request import Request
from gateway.pipeline.responses import refusal
from gateway.protocols.otc.surface import REST

HEAD = Head(method="POST", path="/tools/call", headers={})


class Body:
    """What a request brought along."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free memory."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("chained", [False, True])
def test_a_refused_request_leaves_no_reference_cycle(chained: bool) -> None:
    request = Request(HEAD, REST)
    left: list[weakref.ref[Body]] = []

    def refuse(asked: Request) -> None:
        body = Body()
        left.append(weakref.ref(body))
        try:
            raise ValueError(body)
        except ValueError as exc:
            raise GatewayError(ErrorCode.INVALID_REQUEST, "No.") from (exc if chained else None)

    try:
        refuse(request)
    except GatewayError as exc:
        reply = refusal(exc, request)
    assert reply.status == 400
    assert [body() for body in left] == [None]
    assert request.refusal is not None
