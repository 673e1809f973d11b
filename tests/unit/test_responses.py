"""What is left of a refusal once it is told."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from gateway.dialects.recognise import REST
from gateway.errors import ErrorCode, GatewayError, UnauthenticatedError
from gateway.request import Request
from gateway.responses import refusal
from gateway.wire import Head

HEAD = Head(method="POST", path="/tools/call", headers={})


class Body:
    """What a request brought along."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Whatever is freed is freed at once."""
    gc.disable()
    yield
    gc.enable()


def unauthenticated() -> GatewayError:
    return UnauthenticatedError("Who?", "missing", False)


def invalid() -> GatewayError:
    return GatewayError(ErrorCode.INVALID_REQUEST, "That is none.")


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("made", [unauthenticated, invalid])
@pytest.mark.parametrize("chained", [False, True])
def test_a_refused_request_leaves_no_reference_cycle(made: Callable[[], GatewayError], chained: bool) -> None:
    request = Request(HEAD, REST)
    left: list[weakref.ref[Body]] = []

    def decode() -> None:
        body = Body()
        left.append(weakref.ref(body))
        raise ValueError(body)

    def refuse(asked: Request) -> None:
        body = Body()
        left.append(weakref.ref(body))
        if not chained:
            raise made()
        try:
            decode()
        except ValueError as exc:
            raise made() from exc

    try:
        refuse(request)
    except GatewayError as exc:
        reply = refusal(exc, request)
    assert reply.status in (400, 401)
    assert left
    assert [body() for body in left] == [None] * len(left)
    assert request.refused is not None
