"""What a tool server's refusal becomes: whose fault it is, what is missing, and when to ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, Requirements, ToolFailure, ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.common import replies
from gateway.protocols.common.replies import decode_reply
from tests.unit.protocols.common.answers import DEFINITION, invocation, reply


def refused(answer: WireReply) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        decode_reply(answer, invocation())
    return caught.value


REFUSALS: list[tuple[int, Any, ErrorCode, str]] = [
    (400, {"detail": "No."}, ErrorCode.INVALID_REQUEST, "No."),
    (400, {"error": "No."}, ErrorCode.INVALID_REQUEST, "No."),
    (400, {"detail": [{"loc": ["body"], "msg": "x"}]}, ErrorCode.INVALID_REQUEST, "The tool server refused the call."),
    (400, {"message": ""}, ErrorCode.INVALID_REQUEST, "The tool server refused the call."),
    (404, {"message": "None such."}, ErrorCode.TOOL_NOT_FOUND, "None such."),
    (404, {"detail": "None such."}, ErrorCode.TOOL_NOT_FOUND, "None such."),
    (422, {"detail": "Check.", "message": "Check."}, ErrorCode.INVALID_ARGUMENTS, "Check."),
    # FastAPI's own: the request was wrong, which is our doing, and not the tool's input.
    (422, {"detail": [{"loc": ["body", "request"]}]}, ErrorCode.INVALID_REQUEST, "The tool server refused the call."),
    (401, b"", ErrorCode.BACKEND_UNAVAILABLE, "The tool is temporarily unavailable."),
    (403, {"detail": "secret"}, ErrorCode.BACKEND_UNAVAILABLE, "The tool is temporarily unavailable."),
]


@pytest.mark.parametrize(("status", "body", "code", "message"), REFUSALS)
def test_a_refusal_of_the_tool_server_is_a_refusal(status: int, body: Any, code: ErrorCode, message: str) -> None:
    error = refused(reply(status, body))
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("header", "said", "code"),
    [
        ("backend_unavailable", "backend_unavailable", ErrorCode.BACKEND_UNAVAILABLE),
        ("result_expired", "result_expired", ErrorCode.RESULT_EXPIRED),
        ("tool_not_found", "backend_unavailable", ErrorCode.INVALID_REQUEST),
        ("unauthenticated", "unauthenticated", ErrorCode.INVALID_REQUEST),  # who calls us is known
        (None, "backend_unavailable", ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_word_of_another_gateway_s_refusal_is_passed_on(header: str | None, said: str, code: ErrorCode) -> None:
    """Ours: a chain of gateways answers as one. What only the body says may be a tool server's own."""
    headers = {} if header is None else {"toolgate_code": header}
    assert refused(reply(400, {"message": "No.", "code": said}, **headers)).code is code


def test_the_developer_message_of_a_tool_server_goes_to_the_log_alone() -> None:
    error = refused(reply(400, {"message": "No.", "developer_message": "x" * 5000}))
    assert error.developer_message is None
    assert error.detail is not None
    assert 500 <= len(error.detail) < 600


def test_parameter_errors_keep_only_texts() -> None:
    error = refused(reply(422, {"message": "Check.", "parameter_errors": {"a": "is missing", "b": {"deep": 1}}}))
    assert error.parameters == {"a": "is missing"}
    assert refused(reply(422, {"message": "Check.", "parameter_errors": ["a"]})).parameters is None


CHALLENGE = {"id": "ch", "url": "https://x.example/a", "check_url": "/check/1"}
MISSING: list[tuple[Any, Any]] = [
    ({"authorization": [CHALLENGE | {"more": 1}]}, {"authorization": [CHALLENGE]}),  # a closed object
    (
        {"authorization": [{"id": "a", "url": "https://x"}, {"id": "b"}, {"id": 7, "url": "https://x"}, "x"]},
        {"authorization": [{"id": "a", "url": "https://x"}]},
    ),
    ({"secrets": [{"id": "s", "value": "canary"}, {}, 7, {"id": 7}]}, {"secrets": [{"id": "s"}]}),
    ({"secrets": "s", "authorization": {}, "other": 1, "user_id": True}, {"user_id": True}),
    ({"authorization": [], "secrets": [], "user_id": True}, {"user_id": True}),  # written out, and asking for nothing
]


@pytest.mark.parametrize(("said", "kept"), MISSING)
def test_missing_requirements_are_reduced_to_what_the_standard_names(said: Any, kept: Any) -> None:
    error = refused(reply(400, {"message": "Connect.", "missing_requirements": said}))
    assert (error.code, error.message, error.missing) == (ErrorCode.MISSING_REQUIREMENTS, "Connect.", kept)


@pytest.mark.parametrize("said", [{"user_id": "yes"}, {"authorization": [], "secrets": []}, [], None], ids=repr)
def test_requirements_that_name_nothing_are_not_what_a_call_failed_for(said: Any) -> None:
    error = refused(reply(400, {"message": "No.", "missing_requirements": said}))
    assert (error.code, error.message, error.missing) == (ErrorCode.INVALID_REQUEST, "No.", None)
    body = {"call_id": "c", "success": False, "error": {"message": "No.", "missing_requirements": said}}
    assert decode_reply(reply(200, body), invocation()) == ToolResult(failure=ToolFailure(message="No."))


@pytest.mark.parametrize(
    "wrap", [lambda said: reply(400, said), lambda said: reply(200, {"success": False, "error": said})]
)
def test_a_secret_of_the_route_that_does_not_do_is_no_callers_business(wrap: Callable[[Any], WireReply]) -> None:
    """The tool server was sent both; the caller knows of one only, for the other is left out of what is listed."""
    definition = replace(DEFINITION, requires=Requirements(secrets=("CALLERS",)))
    context = CallContext(secrets={"CALLERS": "c", "ROUTES": "r"})
    asked = replace(invocation(), tool=definition, context=context)

    def answered(**missing: Any) -> tuple[ErrorCode, Any]:
        with pytest.raises(GatewayError) as caught:
            decode_reply(wrap({"message": "ROUTES is wrong.", "missing_requirements": missing}), asked)
        assert caught.value.missing is not None or "ROUTES" not in caught.value.message
        return caught.value.code, caught.value.missing

    routes, callers, unsent = {"id": "ROUTES"}, {"id": "CALLERS"}, {"id": "UNSENT"}
    assert answered(secrets=[routes]) == (ErrorCode.BACKEND_UNAVAILABLE, None)
    assert answered(secrets=[routes, callers]) == (ErrorCode.MISSING_REQUIREMENTS, {"secrets": [callers]})
    assert answered(secrets=[unsent]) == (ErrorCode.MISSING_REQUIREMENTS, {"secrets": [unsent]})
    assert answered(secrets=[routes], user_id=True) == (ErrorCode.MISSING_REQUIREMENTS, {"user_id": True})


def test_missing_requirements_inside_a_failed_result_are_a_refusal_too() -> None:
    body = {"call_id": "c", "success": False, "error": {"missing_requirements": {"user_id": True}}}
    error = refused(reply(200, body))
    assert (error.code, error.missing) == (ErrorCode.MISSING_REQUIREMENTS, {"user_id": True})


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_busy_tool_server_may_be_asked_again_only_where_that_is_harmless(status: int, idempotent: bool) -> None:
    result = decode_reply(reply(status, b"", retry_after="7"), invocation(idempotent=idempotent))
    assert result.failure is not None
    assert (result.failure.can_retry, result.failure.retry_after_ms) == (idempotent, 7000)


NOW = "Fri, 31 Dec 2032 23:59:00 GMT"
WAITS = [("0", 0), ("7.0", 7000), ("1.5", 2000), ("0.001", 1000), ("999999999", 86_400_000)]
WAITS += [
    ("Fri, 31 Dec 2032 23:59:09 GMT", 9000),
    ("Friday, 31-Dec-32 23:59:09 GMT", 9000),  # the obsolete forms that have to be understood
    ("Fri Dec 31 23:59:09 2032", 9000),
    ("Sat, 01 Jan 2033 00:59:09 +0100", 9000),  # none of HTTP's, but clear
    (NOW, 0),
    ("Fri, 31 Dec 2032 23:58:00 GMT", 0),  # over already
    ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
    ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400_000),
]
NO_WAITS = ["", "-1", "1e3", "1.", ".5", "1,5", "1 s", "\u00b2", "9" * 5000, "0." + "9" * 5000, "x" * 100_000]
NO_WAITS += [f"Fri, 31 {date}" for date in ("Feb 2032 23:59:59 GMT", f"Dec {'9' * 40} 23:59:59 GMT")]
NO_WAITS += ["Fri, 31 Dec 2032 23:59:59 +999999999999"]


def waits(after: str, **headers: str) -> int | None:
    """The time to wait that a caller is answered, in milliseconds."""
    result = decode_reply(reply(503, b"", retry_after=after, **headers), invocation())
    assert result.failure is not None
    return result.failure.retry_after_ms


@pytest.mark.parametrize(("after", "wait_ms"), WAITS)
def test_a_time_to_wait_is_bounded_and_never_too_short(after: str, wait_ms: int) -> None:
    assert waits(after, date=NOW) == wait_ms


@pytest.mark.parametrize("after", NO_WAITS, ids=lambda value: ascii(value)[:20])
def test_a_text_that_is_no_time_to_wait_is_left_out(after: str) -> None:
    assert waits(after, date=NOW) is None


def test_a_date_to_wait_for_means_nothing_in_an_answer_that_does_not_say_when_it_was_made() -> None:
    assert waits("Fri, 31 Dec 2032 23:59:09 GMT") is None
    assert waits("Fri, 31 Dec 2032 23:59:09 GMT", date="just now") is None


def test_a_refusal_has_the_date_to_wait_for() -> None:
    answer = reply(400, {"message": "Not now."}, retry_after="Fri, 31 Dec 2032 23:59:09 GMT", date=NOW)
    assert refused(answer).retry_after_s == 9


@pytest.mark.parametrize("status", [500, 502, 504, 599])
@pytest.mark.parametrize("body", [b"Traceback: canary", {"message": "canary"}])
def test_a_server_error_says_nothing_of_its_inside_and_is_not_repeated(status: int, body: Any) -> None:
    result = decode_reply(reply(status, body, "text/plain"), invocation(idempotent=True))
    assert result == ToolResult(failure=ToolFailure(message="The tool failed inside its server."))


NO_SUCH_PATH: list[Any] = [
    {"detail": "Not Found"},
    {"message": "Not Found"},
    {"message": "Route POST:/tools/call not found", "error": "Not Found", "statusCode": 404},
    {"message": "Cannot POST /tools/call", "error": "Not Found", "statusCode": 404},
    {"timestamp": "now", "status": 404, "error": "Not Found", "path": "/tools/call"},
    {"timestamp": "now", "status": 404, "error": "Not Found", "message": "No static resource tools/call."},
    {"message": "The route tools/call could not be found."},
    {"error": "404 Not Found: The requested URL was not found on the server. If you entered it by hand\n..."},
    {"message": "no Route matched with those values"},
    {"title": "Not Found", "status": 404},
    b"404 page not found",
]


@pytest.mark.parametrize("body", NO_SUCH_PATH, ids=repr)
def test_a_path_that_is_not_there_is_distinguished_from_a_tool_that_is_not(body: Any) -> None:
    assert replies.is_unknown_path(reply(404, body))
    assert not replies.is_unknown_path(reply(400, body))


NO_SUCH_TOOL: list[Any] = [
    {"message": "Tool not found", "error": "Not Found"},
    {"detail": "Tool A.B not found"},
    {"detail": [{"msg": "Not Found"}]},
    {"message": ""},
]


@pytest.mark.parametrize("body", NO_SUCH_TOOL, ids=repr)
def test_a_tool_that_is_not_there_is_not_taken_for_a_path(body: Any) -> None:
    """Asked again at another path, one that says so after it did something would do it twice."""
    assert not replies.is_unknown_path(reply(404, body))
