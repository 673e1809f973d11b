"""What an answer that is no success means: the words, whether to try again, and what it says of the service."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, Invocation, ToolFailure, ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.common.replies import BrokenReplyError, NotOursError
from gateway.protocols.openapi.document.codec import OpenApiCodec
from gateway.protocols.openapi.document.plan import OperationTool
from tests.unit.protocols.openapi.document.calling import (
    LENDING,
    ORIGIN,
    ROUTES_SECRET,
    SECRET,
    TOKEN,
    answer,
    called,
    operation,
)

CODEC = OpenApiCodec((ORIGIN,))
PROBLEM = "application/problem+json"
DATE = "Mon, 23 Nov 2026 12:00:00 GMT"  # 1795435200


def read(reply: WireReply, invocation: Invocation | None = None) -> ToolResult:
    return CODEC.decode_reply(reply, invocation or called(operation()), None)


def failure(
    reply: WireReply, tool: OperationTool | None = None, *, idempotent: bool = False, **more: Any
) -> ToolFailure:
    found = read(reply, called(tool or operation(), idempotent=idempotent, **more)).failure
    assert found is not None
    return found


# Of problem details, .NET, FastAPI, GitHub, Google, Stripe, OAuth, JSON:API, Prism.
WORDS: list[tuple[Any, str]] = [
    ({"title": "No.", "detail": "Too old.", "status": 400}, "No.: Too old."),  # RFC 9457
    ({"title": "Old", "detail": "Old: too old."}, "Old: too old."),
    ({"title": "Invalid", "errors": [{"detail": "must be red", "pointer": "#/c"}]}, "Invalid: #/c: must be red"),
    ({"title": "Errors.", "errors": {"Name": ["is required.", "is x."]}}, "Errors: Name: is required.; Name: is x."),
    ({"detail": [{"loc": ["body", "a", 0], "msg": "Field required", "input": "s"}]}, "body.a.0: Field required"),
    ({"detail": "Not Found"}, "Not Found"),
    ({"message": "Validation Failed", "errors": [{"resource": "I", "field": "title", "code": "missing"}]},
     "Validation Failed: title: missing"),  # GitHub
    ({"error": {"code": 400, "message": "Bad key", "errors": [{"message": "Bad key", "location": "k"}]}},
     "Bad key: k: Bad key"),  # Google
    ({"error": {"message": "No such card", "type": "x", "param": "card"}}, "No such card"),  # Stripe
    ({"error": "invalid_grant", "error_description": "It expired"}, "It expired"),
    ({"error": "Nope"}, "Nope"),
    ({"errors": [{"detail": "is blank", "source": {"pointer": "/data/a"}}]}, "/data/a: is blank"),  # JSON:API
    ({"errors": ["a", "b", 3]}, "a; b"),
    ({"title": "T", "validation": [{"location": ["body", "t"], "message": "must be string"}]},
     "T: body.t: must be string"),  # Prism
    (["a", {"message": "b"}], "a; b"),
    ("text", "text"),
    ({"message": "a\n\tb\x00\u202ec " + "x" * 600}, "a bc " + "x" * 493 + " …"),
    ({"message": 7}, "The service refused the request (400)."),
    ({}, "The service refused the request (400)."),
    (7, "The service refused the request (400)."),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), WORDS)
def test_openapi_42_the_words_of_the_service_reach_the_caller(body: Any, message: str) -> None:
    for kind in ("application/json", PROBLEM, None):
        assert failure(answer(400, body, kind)).message == message


def test_half_a_character_does_not_cost_the_words_of_a_refusal() -> None:
    assert failure(answer(422, b'{"message": "No \\ud83d such"}')).message == "No \ufffd such"


PLAIN: list[tuple[bytes, str | None, str]] = [
    (b"Out of\r\nstock ", "text/plain; charset=utf-8", "Out of stock"),
    (b"x" * 300, "text/plain", "x" * 198 + " …"),
    (b"<html>Out", "text/plain", "The service refused the request (422)."),
    (b"<p>Out of stock", "text/html", "The service refused the request (422)."),
    (b"Out of stock", None, "The service refused the request (422)."),
    (b'{"message":', "application/json", "The service refused the request (422)."),
    (b'{"message": "%b"}' % (b"x" * 20_000), "application/json", "The service refused the request (422)."),
    (b"\x89PNG", "image/png", "The service refused the request (422)."),
]


@pytest.mark.parametrize(("body", "kind", "message"), PLAIN)
def test_openapi_42_text_is_shown_in_short_and_pages_never(body: bytes, kind: str | None, message: str) -> None:
    found = failure(answer(422, body, kind))
    assert (found.message, found.developer_message) == (message, None)


def test_what_else_a_refusal_holds_is_for_the_log_of_the_caller() -> None:
    body = {"message": "No", "trace": "x" * 3000}
    found = failure(answer(409, body))
    assert found.developer_message is not None
    assert found.developer_message == json.dumps(body)[:2046] + " …"
    assert failure(answer(500, body)).developer_message is None  # the insides of a service that failed


# status, message, can_retry when it may be repeated, outcome, code
STATUSES: list[tuple[int, str, bool, str, str]] = [
    (400, "The service refused the request (400).", False, "tool_error", ""),
    (402, "The service asks for payment first (402).", False, "tool_error", ""),
    (403, "The service does not allow this (403).", False, "tool_error", ""),
    (404, "The service did not find it (404).", False, "tool_error", ""),
    (405, "The service does not know this operation (405).", False, "tool_error", ""),
    (408, "The service is busy (408).", True, "tool_error", "backend_busy"),
    (409, "The service is in a state that does not allow this (409).", False, "tool_error", ""),
    (410, "It is no longer there (410).", False, "tool_error", ""),
    (413, "The request is too large for the service (413).", False, "tool_error", ""),
    (418, "The service refused the request (418).", False, "tool_error", ""),
    (425, "The service is busy (425).", True, "tool_error", "backend_busy"),
    (429, "The service is busy (429).", True, "tool_error", "backend_busy"),
    (500, "The service failed (500).", True, "tool_error", ""),
    (501, "The service does not know this operation (501).", False, "tool_error", ""),
    (502, "The service failed (502).", True, "unknown", ""),
    (503, "The service is busy (503).", True, "tool_error", "backend_busy"),
    (504, "The service failed (504).", True, "unknown", ""),
    (521, "The service failed (521).", True, "tool_error", ""),
]


@pytest.mark.parametrize(("status", "message", "repeats", "outcome", "code"), STATUSES)
def test_openapi_44_a_status_is_a_failure_that_says_whether_to_repeat_the_call(
    status: int, message: str, repeats: bool, outcome: str, code: str
) -> None:
    for idempotent in (False, True):
        expected = ToolFailure(
            message=message, can_retry=repeats and idempotent, extras={"status": status}, outcome=outcome, code=code
        )
        assert failure(answer(status), idempotent=idempotent) == expected


def test_a_failed_service_is_quoted_behind_that_it_failed() -> None:
    assert failure(answer(500, {"title": "Boom"}, PROBLEM)).message == "The service failed (500): Boom"


@pytest.mark.parametrize("status", [100, 101, 199, 304, 305, 306, 399, 600, 999])
def test_a_status_that_is_no_answer_is_broken(status: int) -> None:
    with pytest.raises(BrokenReplyError, match=f"status {status}"):
        read(answer(status))


def test_openapi_46_what_was_moved_is_told_with_its_path() -> None:
    for status in (300, 301, 302, 303, 307, 308):
        found = failure(answer(status, b"", None, location=f"{ORIGIN}/b"))
        assert found == ToolFailure(
            message=f"The service moved this ({status}).", extras={"status": status, "location": "/b"}
        )
    assert failure(answer(302, b"", None, location="https://other.example/b")).extras == {"status": 302}
    assert failure(
        answer(302, b"", None, location="https://other.example/b"), operation(headers=("location",))
    ).extras == {
        "status": 302,
        "location": "https://other.example/b",
    }


def test_openapi_46_a_post_that_points_elsewhere_was_done() -> None:
    assert read(answer(303, b"", None, location="/b"), called(operation("POST"))) == ToolResult(
        value={"location": "/b"}
    )


WAITS: list[tuple[dict[str, str], int | None]] = [
    ({"retry_after": "7"}, 7000),
    ({"retry_after": "1.5"}, 2000),
    ({"retry_after": "Mon, 23 Nov 2026 12:00:30 GMT", "date": DATE}, 30_000),
    ({"retry_after": "Mon, 23 Nov 2026 11:00:30 GMT", "date": DATE}, 0),
    ({"retry_after": "9999999"}, 86_400_000),
    ({"retry_after": "soon"}, None),
    ({"retry_after": "7", "ratelimit_reset": "9"}, 7000),
    ({"ratelimit_reset": "9"}, 9000),
    ({"x_ratelimit_reset": "9"}, 9000),
    ({"x_ratelimit_reset": "1795435260", "date": DATE}, 60_000),
    ({"x_ratelimit_reset": "1795435260"}, None),
    ({"x_ratelimit_reset": "\xb2"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "wait_ms"), WAITS)
@pytest.mark.parametrize("status", [429, 503])
def test_openapi_45_how_long_to_wait_is_told(status: int, headers: dict[str, str], wait_ms: int | None) -> None:
    assert failure(answer(status, b"", None, **headers)).retry_after_ms == wait_ms


def test_openapi_45_a_403_about_a_rate_limit_is_one() -> None:
    """As GitHub answers."""
    limited = answer(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0", x_ratelimit_reset="9")
    found = failure(limited, idempotent=True)
    assert (found.can_retry, found.retry_after_ms, found.code) == (True, 9000, "backend_busy")
    assert not failure(answer(403, {"message": "No"}, x_ratelimit_remaining="8"), idempotent=True).can_retry


def test_a_conflict_with_an_idempotency_key_is_the_first_call_under_way() -> None:
    keyed = operation("POST", key_header="Idempotency-Key")
    assert failure(answer(409, b"", None, retry_after="2"), keyed).can_retry
    assert not failure(answer(409), operation("POST")).can_retry


# Credentials.

URLS = {"authorization_urls": {"github": "https://grant.example/"}, "context": LENDING}
SCOPED = 'Bearer realm="x", error="insufficient_scope", scope="repo:write admin"'


def refusal(reply: WireReply, tool: OperationTool, **more: Any) -> GatewayError:
    with pytest.raises(GatewayError) as raised:
        read(reply, called(tool, **more))
    return raised.value


def test_openapi_43_our_own_credential_is_nothing_that_a_caller_can_mend() -> None:
    for tool in (operation(), ROUTES_SECRET):
        found = refusal(answer(401, {"message": "Bad credentials"}), tool)
        assert isinstance(found, NotOursError)
        assert (found.code, found.missing) == (ErrorCode.BACKEND_UNAVAILABLE, None)


def test_openapi_43_the_token_of_a_caller_is_asked_for_anew() -> None:
    challenge = {"id": "github", "url": "https://grant.example/"}
    found = refusal(answer(401), TOKEN, **URLS)
    assert found.code is ErrorCode.MISSING_REQUIREMENTS
    assert found.missing == {"authorization": [challenge]}
    found = refusal(answer(403, b"", None, www_authenticate=SCOPED), TOKEN, **URLS)
    assert found.missing == {"authorization": [challenge]}
    assert found.message.endswith("It asks for: repo:write admin.")


def test_openapi_43_without_a_place_to_ask_for_it_the_call_fails() -> None:
    assert failure(answer(401), TOKEN).message == "The service does not accept the token, or needs one."
    found = failure(answer(403, b"", None, www_authenticate=SCOPED), TOKEN)
    assert found.message.endswith("It asks for: repo:write admin.")


def test_openapi_43_the_secret_of_a_caller_is_asked_for_anew() -> None:
    assert refusal(answer(401), SECRET, context=LENDING).missing == {"secrets": [{"id": "KEY"}]}


def test_openapi_43_a_403_about_what_was_asked_for_is_no_matter_of_credentials() -> None:
    for tool, headers in (
        (TOKEN, {}),
        (operation(), {"www_authenticate": SCOPED}),
        (SECRET, {"www_authenticate": SCOPED}),
    ):
        context = CallContext(tokens={"github": "t"})
        assert failure(answer(403, {"message": "Not yours"}, **headers), tool, context=context).message == "Not yours"
