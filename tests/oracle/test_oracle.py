"""The oracle itself: what the specifications show must pass, and each head and form that is wrong must fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle import Operation, check
from tests.oracle.examples import (
    CHALLENGE,
    ENV,
    FAILURE,
    IN_RFC,
    NO,
    OTC,
    RFC,
    SEARCH,
    VALUE,
    WRAPPED,
    WRONG_INPUT,
    answer_head,
    coded,
)

GOOD: list[tuple[str, Operation, int, Any]] = [
    (
        "rfc",
        "call",
        200,
        {"$schema": RFC, "call_id": "k-1", "success": True, "duration": 4.2, "output": {"value": 325}},
    ),
    ("rfc", "call", 200, {"$schema": RFC, "call_id": "k", "success": False, "output": {"error": {"message": "no"}}}),
    ("rfc", "call", 422, {"$schema": RFC} | WRONG_INPUT),
    ("rfc", "list", 200, {"$schema": RFC, "tools": [IN_RFC]}),
    ("rfc", "list", 401, {"$schema": RFC, "message": "Who are you?"}),
    ("otc", "call", 200, {"$schema": OTC, "result": VALUE}),
    ("otc", "call", 200, {"$schema": OTC, "result": VALUE | {"value": None}}),
    ("otc", "call", 200, {"$schema": OTC, "result": FAILURE}),
    ("otc", "call", 400, {"$schema": OTC, "message": "No such tool version", "developer_message": "have 1.4.0"}),
    ("otc", "call", 422, {"$schema": OTC} | WRONG_INPUT),
    ("otc", "call", 401, {"message": "Who are you?"}),
    ("otc", "list", 200, {"$schema": OTC, "tools": [WRAPPED]}),
    ("otc", "list", 200, {"$schema": OTC, "tools": []}),
    ("oxp", "call", 200, VALUE),
    ("oxp", "call", 200, FAILURE),
    ("oxp", "call", 400, CHALLENGE),
    ("oxp", "call", 422, WRONG_INPUT),
    ("oxp", "call", 429, {"message": "Slow down."}),
    ("oxp", "list", 200, {"items": [SEARCH]}),
    ("oxp", "challenge", 200, {"status": "pending"}),
    ("oxp", "health", 503, {"status": "draining"}),
    ("oxp-env", "call", 200, {"$schema": ENV, "result": VALUE}),
    ("oxp-env", "call", 400, {"$schema": ENV} | CHALLENGE),
    ("oxp-env", "list", 200, {"$schema": ENV, "items": [SEARCH]}),
    ("lc", "call", 200, {"call_id": "k", "success": True, "value": None}),
    ("lc", "call", 200, {"call_id": "k", "success": False, "value": None, "error": {"message": "It broke."}}),
    ("lc", "call", 400, {"detail": "No such tool.", "message": "No such tool."}),
    ("lc", "call", 422, {"detail": "Wrong input."} | WRONG_INPUT),
    ("lc", "list", 200, [SEARCH]),
    ("rfc", "call", 202, {"$schema": RFC, "call_id": "k", "success": False, "output": {"error": {"message": "no"}}}),
    ("otc", "call", 202, {"$schema": OTC, "result": FAILURE}),
    ("oxp", "call", 202, FAILURE),
    ("lc", "call", 202, {"call_id": "k", "success": False, "value": None, "error": {"message": "Not yet."}}),
    ("oxp", "kept", 202, FAILURE),
    ("oxp", "kept", 202, VALUE),
    ("otc", "kept", 200, {"$schema": OTC, "result": VALUE}),
    ("oxp", "kept", 400, CHALLENGE),
    ("bare", "kept", 404, {"message": "There is no such call."}),
    ("bare", "call", 415, {"message": "Send JSON."}),
    ("bare", "call", 405, {"message": "Use POST."}),
    ("otc", "health", 200, {"status": "ok"}),
]


@pytest.mark.parametrize(("dialect", "operation", "status", "document"), GOOD)
def test_what_the_specifications_show_passes(dialect: str, operation: Operation, status: int, document: Any) -> None:
    head, document = coded(operation, status, document)
    check(dialect, operation, status, answer_head(dialect, operation, status) | head, json.dumps(document).encode())


WRONG_HEADS: list[tuple[str, str, Operation, int, Any, dict[str, str]]] = [
    ("HTML", "oxp", "call", 200, VALUE, {"Content-Type": "text/html"}),
    ("Latin-1", "oxp", "call", 200, VALUE, {"Content-Type": "application/json; charset=latin-1"}),
    ("a wrong length", "oxp", "call", 200, VALUE, {"Content-Length": "1"}),
    ("no OXP-Version on a refusal", "oxp", "call", 401, NO, {"OXP-Version": ""}),
    ("a foreign OXP-Version", "oxp", "call", 200, VALUE, {"OXP-Version": "2.0"}),
    ("health without OXP-Version", "otc", "health", 200, {"status": "ok"}, {"OXP-Version": ""}),
    ("a call that may be stored", "oxp", "call", 200, VALUE, {"Cache-Control": "max-age=60"}),
    ("a catalogue others may see", "oxp", "list", 200, {"items": []}, {"Cache-Control": "public, no-cache"}),
    ("a catalogue without ETag", "oxp", "list", 200, {"items": []}, {"ETag": ""}),
    ("a catalogue without Vary", "oxp", "list", 200, {"items": []}, {"Vary": ""}),
    ("401 without a scheme", "oxp", "call", 401, NO, {"WWW-Authenticate": ""}),
    ("405 without methods", "oxp", "call", 405, NO, {"Allow": ""}),
    ("a call without our id", "oxp", "call", 200, VALUE, {"Toolgate-Call-Id": ""}),
    ("the caller's id for ours", "oxp", "call", 200, VALUE, {"Toolgate-Call-Id": "k-2"}),
    ("the place of another call", "oxp", "call", 200, VALUE, {"Location": "https://gw.example/calls/tg-x"}),
    ("202 without a place", "oxp", "call", 202, FAILURE, {"Location": ""}),
    ("202 nobody asked for", "oxp", "call", 202, FAILURE, {"Preference-Applied": "wait=2"}),
    ("respond-async that was waited for", "oxp", "call", 200, VALUE, {"Preference-Applied": "respond-async"}),
    ("a result without a place", "oxp", "kept", 200, VALUE, {"Location": ""}),
    ("a refusal without a word for programs", "oxp", "call", 400, NO, {"Toolgate-Code": ""}),
    ("a failure without one", "otc", "call", 200, {"$schema": OTC, "result": FAILURE}, {"Toolgate-Code": ""}),
    ("one that is not documented", "oxp", "list", 400, NO, {"Toolgate-Code": "oops"}),
    ("another one than in the body", "oxp", "call", 400, NO, {"Toolgate-Code": "forbidden"}),
    ("a failure's word on a refusal", "oxp", "call", 400, NO, {"Toolgate-Code": "tool_error"}),
    ("a word on a success", "oxp", "call", 200, VALUE, {"Toolgate-Code": "tool_error"}),
    ("a word on a list", "oxp", "list", 200, {"items": []}, {"Toolgate-Code": "internal"}),
    ("429 without a time", "oxp", "call", 429, NO, {"Retry-After": ""}),
]


@pytest.mark.parametrize(
    ("dialect", "operation", "status", "document", "changed"),
    [c[1:] for c in WRONG_HEADS],
    ids=[c[0] for c in WRONG_HEADS],
)
def test_a_wrong_head_fails(
    dialect: str, operation: Operation, status: int, document: Any, changed: dict[str, str]
) -> None:
    head, document = coded(operation, status, document)
    body = json.dumps(document).encode()
    right = answer_head(dialect, operation, status) | head
    check(dialect, operation, status, right, body)
    with pytest.raises(AssertionError):
        check(dialect, operation, status, right | changed, body)


NOT_JSON = [
    b"",
    b"{",
    b"Internal Server Error",
    b'{"status": NaN}',
    b'{"status": "ok", "status": "ok"}',
    b'{"status": "\xff"}',
]


@pytest.mark.parametrize("body", NOT_JSON)
def test_a_body_that_is_not_strict_json_fails(body: bytes) -> None:
    with pytest.raises(AssertionError):
        check("otc", "health", 200, answer_head("otc", "health", 200), body)


def test_a_failed_check_says_where_and_what() -> None:
    body = json.dumps(VALUE | {"duration": -1}).encode()
    with pytest.raises(AssertionError, match=r"(?s)oxp call 200: at duration: -1 is less than.*body: b'\{") as raised:
        check("oxp", "call", 200, answer_head("oxp", "call", 200), body)
    assert "oxp-version" in str(raised.value)


def test_a_not_modified_catalogue_has_no_body() -> None:
    head = answer_head("otc", "list", 304)
    check("otc", "list", 304, head, b"")
    with pytest.raises(AssertionError, match="no body"):
        check("otc", "list", 304, head, b"{}")
