"""The oracle itself: the wire examples must pass, and each head and body that is wrong must fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle import Operation, check
from tests.wire import DIALECTS, CallExample, call_examples, definition_examples

RFC = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC = "otc://1.0"
ENV = "urn:oxp:1.0"
OWN_ID = "tg-" + "a-Z_9" * 5
NO: dict[str, Any] = {"message": "no"}
EXAMPLES = call_examples()
LISTED = {dialect: [example.listed for example in definition_examples(dialect).values()][:1] for dialect in DIALECTS}
SEARCH, IN_RFC, WRAPPED = LISTED["oxp"][0], LISTED["rfc"][0], LISTED["otc"][0]
VALUE: dict[str, Any] = {"call_id": "k-2", "success": True, "duration": 4.2, "value": 325}
FAILURE: dict[str, Any] = {"call_id": "k-3", "success": False, "error": NO | {"can_retry": True}}
CONNECT = {"id": "x", "url": "https://x.example/"}
WRONG_INPUT: dict[str, Any] = {"message": "Check the highlighted fields", "parameter_errors": {"to": "is required"}}


def right_head(dialect: str, operation: Operation, status: int) -> dict[str, str]:
    """The headers of a faultless answer."""
    head = {"Content-Type": "application/json"}
    if operation in ("call", "kept"):
        head["Cache-Control"] = "no-store"
        if status in (200, 202):
            head["Toolgate-Call-Id"] = OWN_ID
        if status == 202 or (operation, status) == ("kept", 200):
            head["Location"] = f"https://gw.example/calls/{OWN_ID}"
        if operation == "call" and status == 202:
            head["Preference-Applied"] = "respond-async, wait=2"
    if operation == "list":
        head |= {"Cache-Control": "private, no-cache", "ETag": '"1"', "Vary": "Authorization, OXP-Version"}
    if dialect == "oxp" or operation == "health":
        head["OXP-Version"] = "1.0"
    demanded = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}, 429: {"Retry-After": "2"}}
    return head | demanded.get(status, {})


def coded(operation: Operation, status: int, document: Any) -> tuple[dict[str, str], Any]:
    """The code for programs, in the head and in the body of an answer that needs one."""
    if operation == "health" or not isinstance(document, dict):
        return {}, document
    if status >= 400:
        return {"Toolgate-Code": "internal"}, document | {"code": "internal"}
    for member in ("result", "output"):
        if member in document:
            head, inner = coded(operation, status, document[member])
            return head, document | {member: inner}
    error = document.get("error")
    if not isinstance(error, dict):
        return {}, document
    return {"Toolgate-Code": "still_running"}, document | {"error": {"code": "still_running"} | error}


def judge(
    dialect: str, operation: Operation, status: int, document: Any, changed: dict[str, str] | None = None
) -> None:
    """Checks an answer with a faultless head, but for what is `changed`."""
    head, document = coded(operation, status, document)
    head = right_head(dialect, operation, status) | head | (changed or {})
    check(dialect, operation, status, head, json.dumps(document).encode())


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_answer_of_an_example_passes(example: CallExample) -> None:
    reply = example.answered
    head = {key.decode(): value.decode() for key, value in reply.headers} | {"toolgate-call-id": OWN_ID}
    check(example.dialect, "call", reply.status, head, reply.body)


GOOD: list[tuple[str, Operation, int, Any]] = [
    ("rfc", "list", 200, {"$schema": RFC, "tools": LISTED["rfc"]}),
    ("rfc", "list", 401, {"$schema": RFC, "message": "Who are you?"}),
    ("otc", "list", 200, {"$schema": OTC, "tools": LISTED["otc"]}),
    ("otc", "list", 200, {"$schema": OTC, "tools": []}),
    ("otc", "call", 401, {"message": "Who are you?"}),
    ("oxp", "list", 200, {"items": LISTED["oxp"]}),
    ("oxp", "challenge", 200, {"status": "pending"}),
    ("oxp", "health", 503, {"status": "draining"}),
    ("oxp-env", "list", 200, {"$schema": ENV, "items": LISTED["oxp-env"]}),
    ("lc", "list", 200, LISTED["lc"]),
    ("rfc", "call", 202, {"$schema": RFC, "call_id": "k", "success": False, "output": {"error": {"message": "no"}}}),
    ("otc", "call", 202, {"$schema": OTC, "result": FAILURE}),
    ("oxp", "call", 202, FAILURE),
    ("oxp", "call", 429, {"message": "Slow down."}),
    ("lc", "call", 202, {"call_id": "k", "success": False, "value": None, "error": {"message": "Not yet."}}),
    ("oxp", "kept", 202, VALUE),
    ("otc", "kept", 200, {"$schema": OTC, "result": VALUE}),
    ("bare", "kept", 404, {"message": "There is no such call."}),
    ("bare", "call", 405, {"message": "Use POST."}),
    ("otc", "health", 200, {"status": "ok"}),
]


@pytest.mark.parametrize(("dialect", "operation", "status", "document"), GOOD)
def test_other_right_answers_pass(dialect: str, operation: Operation, status: int, document: Any) -> None:
    judge(dialect, operation, status, document)


WRONG_HEADS: list[tuple[str, Operation, int, Any, dict[str, str]]] = [
    ("oxp", "call", 200, VALUE, {"Content-Type": "text/html"}),
    ("oxp", "call", 200, VALUE, {"Content-Length": "1"}),
    ("oxp", "call", 401, NO, {"OXP-Version": ""}),
    ("oxp", "call", 200, VALUE, {"OXP-Version": "2.0"}),
    ("oxp", "call", 200, VALUE, {"Cache-Control": "max-age=60"}),
    ("oxp", "list", 200, {"items": []}, {"Cache-Control": "public, no-cache"}),
    ("oxp", "list", 200, {"items": []}, {"ETag": ""}),
    ("oxp", "list", 200, {"items": []}, {"Vary": ""}),
    ("oxp", "call", 401, NO, {"WWW-Authenticate": ""}),
    ("oxp", "call", 429, NO, {"Retry-After": ""}),
    ("oxp", "call", 200, VALUE, {"Toolgate-Call-Id": "k-2"}),
    ("oxp", "call", 200, VALUE, {"Location": "https://gw.example/calls/tg-x"}),
    ("oxp", "call", 202, FAILURE, {"Location": ""}),
    ("oxp", "call", 202, FAILURE, {"Preference-Applied": "wait=2"}),
    ("oxp", "kept", 200, VALUE, {"Location": ""}),
    ("oxp", "call", 400, NO, {"Toolgate-Code": ""}),
    ("oxp", "call", 400, NO, {"Toolgate-Code": "forbidden"}),
    ("oxp", "call", 400, NO, {"Toolgate-Code": "tool_error"}),
    ("oxp", "call", 200, VALUE, {"Toolgate-Code": "tool_error"}),
]


@pytest.mark.parametrize(("dialect", "operation", "status", "document", "changed"), WRONG_HEADS)
def test_a_wrong_head_fails(
    dialect: str, operation: Operation, status: int, document: Any, changed: dict[str, str]
) -> None:
    judge(dialect, operation, status, document)
    with pytest.raises(AssertionError):
        judge(dialect, operation, status, document, changed)


def listing(**changes: Any) -> Any:
    """A flat catalogue of one tool that is not quite right."""
    return {"items": [SEARCH | changes]}


def missing(**requirements: Any) -> Any:
    return NO | {"missing_requirements": requirements}


BAD: list[tuple[str, Operation, int, Any]] = [
    ("otc", "call", 200, {"$schema": OTC, "result": VALUE | {"error": NO}}),
    ("oxp", "call", 200, {"call_id": "k", "success": True}),
    ("oxp", "call", 200, FAILURE | {"value": 1}),
    ("oxp", "call", 200, {"success": True, "value": 1}),
    ("oxp", "call", 200, VALUE | {"duration": -1}),
    ("oxp", "call", 200, VALUE | {"output": {}}),
    ("oxp", "call", 200, FAILURE | {"error": {"can_retry": True}}),
    ("oxp", "call", 200, FAILURE | {"error": {"message": "no", "retry_after_ms": 0.5}}),
    ("otc", "call", 200, {"$schema": OTC} | VALUE),
    ("oxp", "call", 200, {"result": VALUE}),
    ("oxp", "call", 400, {"$schema": ENV, "message": "no"}),
    ("otc", "call", 200, {"$schema": ENV, "result": VALUE}),
    ("oxp-env", "call", 200, {"$schema": "urn:oxp:2.0", "result": VALUE}),
    ("rfc", "call", 401, NO),
    ("rfc", "call", 200, {"$schema": RFC, "output": {"value": 1}} | VALUE),
    ("rfc", "call", 200, {"$schema": RFC, "call_id": "k", "success": True, "output": {"error": NO}}),
    ("lc", "call", 200, {"call_id": "k", "success": True}),
    ("lc", "call", 200, {"call_id": "k", "success": True, "value": 1, "duration": 1}),
    ("lc", "call", 400, NO),
    ("lc", "list", 200, {"items": []}),
    ("otc", "call", 400, {"$schema": OTC, "detail": "no"}),
    ("otc", "call", 400, {"$schema": OTC, "message": "no", "result": VALUE}),
    ("otc", "call", 400, {"$schema": OTC} | WRONG_INPUT),
    ("oxp", "call", 422, {"message": "no", "parameter_errors": ["to"]}),
    ("oxp", "call", 422, missing(user_id=True)),
    ("oxp", "call", 400, missing(authorization=[CONNECT | {"token": "t"}])),
    ("oxp", "call", 400, missing(authorization=[CONNECT | {"url": "not a url"}])),
    ("oxp", "call", 400, missing(secrets=[{"id": "x", "value": "s"}])),
    ("oxp", "call", 400, missing()),
    ("oxp", "call", 503, NO),
    ("oxp", "list", 500, NO),
    ("oxp", "call", 201, VALUE),
    ("oxp", "call", 202, VALUE),
    ("oxp", "kept", 422, WRONG_INPUT),
    ("bare", "call", 200, VALUE),
    ("otc", "list", 200, {"$schema": OTC, "tools": [], "items": []}),
    ("otc", "list", 200, {"$schema": OTC, "tools": [SEARCH]}),
    ("oxp", "list", 200, listing(id="Mail.Search")),
    ("oxp", "list", 200, listing(id=SEARCH["id"] + "\n")),
    ("oxp", "list", 200, listing(version="2.1.1")),
    ("oxp", "list", 200, listing(name="Mail.Search")),
    ("oxp", "list", 200, {"items": [SEARCH, SEARCH]}),
    ("oxp", "list", 200, {"items": [SEARCH | {"id": f"A.B@{v}", "version": v} for v in ("10.0.0", "9.0.0")]}),
    ("oxp", "list", 200, listing(remote_id="x")),
    ("oxp", "list", 200, listing(input_schema={"type": "strnig"})),
    ("oxp", "list", 200, listing(requirements={"authorization": [{}]})),
    ("rfc", "list", 200, {"$schema": RFC, "tools": [WRAPPED]}),
    ("rfc", "list", 200, {"$schema": RFC, "tools": [IN_RFC | {"output": {"available_modes": ["value"]}}]}),
    ("rfc", "list", 200, {"$schema": RFC, "tools": [IN_RFC | {"toolkit": {"name": "Mail", "version": "1.0.9"}}]}),
    ("otc", "challenge", 200, {"status": "denied"}),
    ("otc", "challenge", 404, {"status": "failed"}),
    ("otc", "health", 200, {"status": "ok", "backends": {}}),
    ("otc", "health", 500, {"status": "down"}),
]


@pytest.mark.parametrize(("dialect", "operation", "status", "document"), BAD)
def test_a_wrong_body_fails(dialect: str, operation: Operation, status: int, document: Any) -> None:
    with pytest.raises(AssertionError):
        judge(dialect, operation, status, document)


@pytest.mark.parametrize("body", [b"{", b'{"status": NaN}', b'{"status": "ok", "status": "ok"}', b'{"status": "\xff"}'])
def test_a_body_that_is_not_strict_json_fails(body: bytes) -> None:
    with pytest.raises(AssertionError):
        check("otc", "health", 200, right_head("otc", "health", 200), body)


def test_a_failed_check_says_where_and_what() -> None:
    with pytest.raises(AssertionError, match=r"(?s)oxp call 200: at duration: -1 is less than.*body: b'\{") as raised:
        judge("oxp", "call", 200, VALUE | {"duration": -1})
    assert "oxp-version" in str(raised.value)


def test_a_not_modified_catalogue_has_no_body() -> None:
    head = right_head("otc", "list", 304)
    check("otc", "list", 304, head, b"")
    with pytest.raises(AssertionError, match="no body"):
        check("otc", "list", 304, head, b"{}")
