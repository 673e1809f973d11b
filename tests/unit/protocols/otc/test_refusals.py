"""Refusals on the wire: their status, their members, their headers."""

from __future__ import annotations

import pytest

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FixedError, GatewayError, UnauthenticatedError
from gateway.core.wire import Head
from gateway.protocols.common import fields
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.oxp import OxpFlat
from gateway.protocols.otc.surface import REST
from tests.wire import DIALECTS


def test_no_refusal_of_a_call_is_a_5xx_which_callers_would_send_again() -> None:
    assert {code for code in ErrorCode if fields.STATUSES[code] >= 500} == {ErrorCode.NOT_READY}  # of lists alone


@pytest.mark.parametrize("name", DIALECTS)
def test_the_detail_for_our_log_stays_there(name: str) -> None:
    error = GatewayError(ErrorCode.INTERNAL, "Sorry.", detail="canary")
    reply = otc_surface.DIALECTS[name].encode_error(error)
    assert b"canary" not in reply.body
    assert jsontext.decode(reply.body)["message"] == "Sorry."


@pytest.mark.parametrize(("after_s", "header"), [(0.2, b"1"), (1.4, b"1"), (2.5, b"2"), (90.0, b"90")])
def test_the_time_to_wait_is_in_whole_seconds(after_s: float, header: bytes) -> None:
    error = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "Later.", retry_after_s=after_s)
    assert otc_surface.OXP.encode_error(error).header(b"retry-after") == header


@pytest.mark.parametrize("prefix", [None, *DIALECTS])
def test_a_cached_refusal_of_an_unknown_caller_is_like_any_other_refusal(prefix: str | None) -> None:
    """Each sentence is cached with its own headers."""
    head = Head(method="POST", path="/call", headers={}, dialect=prefix)
    for message, value in (("Who?", b"one"), ("Who?", b"other"), ("You?", b"one"), ("Who?", b"one")):
        headers = ((b"www-authenticate", value),)
        stranger = UnauthenticatedError(message, "missing", False, headers)
        error = GatewayError(ErrorCode.UNAUTHENTICATED, message, headers=headers)
        assert REST.refuse(stranger, head) == REST.refuse(error, head)


class LimitedError(FixedError):
    """One call too many, in the same words for every caller."""

    code = ErrorCode.RATE_LIMITED
    message = "Later."

    def __init__(self, retry_after_s: float, value: bytes) -> None:
        self.reason = "a limit"
        self.retry_after_s, self.headers = retry_after_s, ((b"ratelimit", value),)


@pytest.mark.parametrize("name", DIALECTS)
def test_refusals_in_the_same_words_keep_their_own_times_and_versions(name: str) -> None:
    """Answers of such refusals are cached."""
    dialect = type(otc_surface.DIALECTS[name])
    asked = [(1, b"a", "1.0"), (2, b"a", "1.0"), (1, b"b", "1.0"), (1, b"a", "1.0.0"), (1, b"a", "1.0")]
    for after_s, value, version in asked:
        error = GatewayError(ErrorCode.RATE_LIMITED, "Later.", retry_after_s=after_s, headers=((b"ratelimit", value),))
        reply = dialect(version).encode_error(LimitedError(after_s, value))
        assert reply == dialect(version).encode_error(error)


def test_headers_of_a_refusal_go_on_and_nothing_is_stored() -> None:
    error = GatewayError(ErrorCode.UNAUTHENTICATED, "Who?", headers=((b"www-authenticate", b"Bearer"),))
    reply = OxpFlat("1.0.0").encode_error(error)
    assert dict(reply.headers) == {
        b"content-type": b"application/json",
        b"cache-control": b"no-store",
        b"toolgate-code": b"unauthenticated",
        b"oxp-version": b"1.0.0",
        b"www-authenticate": b"Bearer",
    }
