"""What comes back of a call, in the caller's own form: values, tool errors, and what a tool server's answer becomes.

Whatever a tool server said, it is asked once: the tool may have run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.flow.caller import SCHEMAS, Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import FORMS, Handler, HangUp, ToolServer, always, silence, tool
from tests.streams import Request, http_reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("form", FORMS)
@every_dialect
async def test_a_success_is_in_the_callers_dialect(start: Start, server: ToolServer, dialect: str, form: str) -> None:
    """Spec: RFC, OTC 1.0 and OXP 1.0, Call Tool: `output.value`, `result.value`, `value`; the shape is the oracle's."""
    server.form = form
    caller = (await start(config({"scripted": server.url}))).caller
    answer = await caller.call(dialect, "Echo.Say", {"n": 1}, call_id="mine")
    assert answer.value == {"n": 1}
    assert answer.result["call_id"] == "mine"
    assert answer.document.get("$schema") == (None if dialect == "lc" else SCHEMAS.get(dialect))
    assert answer.headers.get("oxp-version") == ("1.0" if dialect == "oxp" else None)
    assert answer.headers["cache-control"] == "no-store"  # the oracle demands it of refusals, too


@pytest.mark.parametrize("form", FORMS)
@every_dialect
async def test_a_tool_error_is_in_the_callers_dialect(
    start: Start, server: ToolServer, dialect: str, form: str
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Tool Execution Error: 200, `success` false, every member of the error kept."""
    error = {
        "message": "No such doorbell",
        "developer_message": "It was taken down.",
        "can_retry": True,
        "additional_prompt_content": "ids: 1, 2",
        "retry_after_ms": 500,
    }

    async def fail(received: Request) -> bytes:
        return server.failure(received, **error)

    server.form, server.handler = form, fail
    caller = (await start(config({"scripted": server.url}))).caller
    assert (await caller.call(dialect, "Echo.Say")).error == error | {"code": "tool_error"}


@every_dialect
async def test_the_time_a_tool_took_is_said_in_milliseconds(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0, CallToolResponse.duration. Ours: not to the LangChain family, whose servers never send it."""
    result = (await demo.call(dialect, "Clock.Sleep", {"seconds": 0.02})).result
    if dialect == "lc":
        assert "duration" not in result
    else:
        assert 20 <= result["duration"] < 10_000


@every_dialect
async def test_a_tool_that_returns_nothing_answers_a_null_value(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Call Tool Response: null when `output_schema` is null."""
    assert (await demo.call(dialect, "Doorbell.Ring", {"doorbell_id": "doorbell42"})).value is None


@pytest.mark.parametrize(("check", "success"), [("off", True), ("warn", True), ("fail", False)])
@pytest.mark.parametrize("schema", [{"type": "string"}, None], ids=["text", "nothing"])
async def test_output_is_checked_as_the_route_says(
    start: Start, server: ToolServer, check: str, success: bool, schema: dict[str, str] | None
) -> None:
    """Spec: OXP 1.0, Call Tool Response: a value conforms to `output_schema`. Ours: who enforces it."""
    server.tools = [tool("Echo.Say", output_schema=schema)]
    route = {"tools": "*", "backend": "scripted", "validate_output": check}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    result = (await caller.call("oxp", "Echo.Say", {"canary": "in the value"})).result
    assert result["success"] is success
    if not success:
        assert "canary" not in str(result["error"])
        assert result["error"]["can_retry"] is False


CANARY = "canary-1729"
BROKEN = "The tool server gave a broken answer."
OK = {"success": True, "value": {"n": 1}}


def answered(wrap: Callable[[dict[str, Any]], Any]) -> Handler:
    """Answers 200 with whatever is made of a result that has the right call id."""

    async def handle(received: Request) -> bytes:
        return http_reply(200, wrap({"call_id": received.call["call_id"], **OK}))

    return handle


REFUSALS = [
    pytest.param(400, {"message": "No."}, 400, id="400"),
    pytest.param(400, {"detail": "No."}, 400, id="400 as FastAPI words it"),
    pytest.param(400, {"error": "No."}, 400, id="400 as the LangChain family words it"),
    pytest.param(404, {"message": "No."}, 400, id="404 about a tool"),
    pytest.param(422, {"message": "No.", "parameter_errors": {"n": "is odd"}}, 422, id="422"),
]


@pytest.mark.parametrize(("status", "body", "expected"), REFUSALS)
async def test_a_refusal_keeps_its_message_and_no_more(
    caller: Caller, server: ToolServer, status: int, body: dict[str, Any], expected: int
) -> None:
    server.handler = always(http_reply(status, body | {"developer_message": CANARY, "trace": CANARY}))
    answer = await caller.call("oxp", "Echo.Say")
    assert (answer.status, answer.message) == (expected, "No.")
    assert answer.document.get("parameter_errors") == body.get("parameter_errors")
    assert CANARY not in answer.body.decode()
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_our_refused_credential_is_unavailability(
    caller: Caller, server: ToolServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server.handler = always(http_reply(status, {"message": CANARY}, www_authenticate="Bearer"))
    answer = await caller.call("oxp", "Echo.Say")
    assert (answer.status, answer.message) == (400, "The tool is temporarily unavailable.")
    assert CANARY not in answer.body.decode()
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.message == "a tool server does not accept our credential"
    assert len(server.calls) == 1


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_busy_server_is_retryable_if_idempotent(
    start: Start, server: ToolServer, status: int, idempotent: bool
) -> None:
    server.handler = always(http_reply(status, {"message": CANARY}, retry_after="7"))
    route = {"tools": "*", "backend": "scripted", "idempotent": idempotent}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    error = (await caller.call("oxp", "Echo.Say")).error
    message = "The tool server is busy."
    assert error == {"message": message, "code": "backend_busy", "can_retry": idempotent, "retry_after_ms": 7000}
    assert len(server.calls) == 1


FAILURES = [
    pytest.param(500, f"Traceback: {CANARY}".encode(), id="500 in plain text, as the LangChain family fails"),
    pytest.param(500, {"message": CANARY}, id="500 in JSON"),
    pytest.param(502, b"<html>canary-1729</html>", id="502 of a proxy"),
]


@pytest.mark.parametrize(("status", "body"), FAILURES)
async def test_a_500_is_a_tool_failure(caller: Caller, server: ToolServer, status: int, body: Any) -> None:
    server.handler = always(http_reply(status, body))
    error = (await caller.call("oxp", "Echo.Say")).error
    assert error == {"message": "The tool failed inside its server.", "code": "tool_error", "can_retry": False}
    assert len(server.calls) == 1


def truncated(reply: bytes) -> Handler:
    async def handle(_received: Request) -> bytes:
        raise HangUp(reply)

    return handle


GOOD_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BROKEN_ANSWERS: dict[str, Handler] = {
    "a redirect": always(http_reply(302, b"", location="http://elsewhere.example/")),
    "a 400 in plain text": always(http_reply(400, CANARY.encode())),
    "no JSON": always(GOOD_HEAD + b"content-length: 4\r\n\r\nnope"),
    "another call's id": answered(lambda result: result | {"call_id": "tg-other"}),
    "an answer too deep": answered(lambda result: result | {"value": nested(80)}),
    "an answer too large": answered(lambda result: result | {"value": "x" * 5000}),
    "an endless head": always(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000 + b"\r\n\r\n"),
    "no HTTP": always(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "two lengths": always(GOOD_HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} "),
}


TOO_LARGE = (BROKEN_ANSWERS["an answer too large"], BROKEN_ANSWERS["an endless head"])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("handler", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["", "idempotent"])
async def test_a_broken_answer_is_not_retryable(
    start: Start, server: ToolServer, handler: Handler, idempotent: bool
) -> None:
    server.handler = handler
    backend = {"protocol": "oxp", "url": server.url, "max_response": "4KiB"}
    route = {"tools": "*", "backend": "scripted", "idempotent": idempotent}
    caller = (await start(config({"scripted": backend}, [route]))).caller
    answer = await caller.call("oxp", "Echo.Say")
    if handler in TOO_LARGE:
        assert (answer.error["code"], answer.error["can_retry"]) == ("result_too_large", False)
        assert re.search(r"(4096|65536) bytes", answer.error["message"])
    else:
        assert answer.error == {"message": BROKEN, "code": "broken_answer", "can_retry": False}
    assert CANARY not in answer.body.decode()
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "last_words",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200", id="half a head"),
        pytest.param(GOOD_HEAD + b"content-length: 100\r\n\r\n{", id="half a body"),
        pytest.param(GOOD_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n{", id="half a chunk"),
    ],
)
async def test_a_broken_connection(caller: Caller, server: ToolServer, last_words: bytes) -> None:
    server.handler = truncated(last_words)
    error = (await caller.call("oxp", "Echo.Say")).error
    message = "The connection to the tool server broke; the tool may have run."
    assert error == {"message": message, "code": "unknown", "can_retry": False}
    assert len(server.calls) == 1


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_timeout_is_a_tool_error(start: Start, server: ToolServer, idempotent: bool) -> None:
    server.handler = silence
    route = {"tools": "*", "backend": "scripted", "timeout": "30ms", "idempotent": idempotent}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    error = (await caller.call("oxp", "Echo.Say")).error
    assert ("0.03 seconds" in error["message"], error["code"]) == (True, "timeout")
    assert error["can_retry"] is idempotent
    assert len(server.calls) == 1
