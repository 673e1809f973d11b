"""The oracle itself: what the specifications show must pass, and each way to be wrong must fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle import Operation, check

RFC = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC = "otc://1.0"
ENV = "urn:oxp:1.0"
OWN_ID = "tg-" + "a-Z_9" * 5

SEARCH: dict[str, Any] = {
    "id": "Mail.Search@2.1.0",
    "name": "Mail_Search",
    "description": "Find mail",
    "version": "2.1.0",
    "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    "output_schema": {"type": "array"},
    "requirements": {"authorization": [{"id": "acme-mail", "oauth2": {"scopes": ["read"]}}], "user_id": True},
}
WRAPPED = SEARCH | {"input_schema": {"parameters": SEARCH["input_schema"]}}
IN_RFC = {
    "id": "Mail.Search@2.1.0",
    "name": "Search",
    "description": "Find mail",
    "toolkit": {"name": "Mail", "description": "Mail of all kinds", "version": "2.1.0"},
    "input": {"parameters": SEARCH["input_schema"], "non_inferrable_parameters": ["q"]},
    "output": {"available_modes": ["value", "error"], "value": {"type": "array"}},
}
VALUE: dict[str, Any] = {"call_id": "k-2", "success": True, "duration": 4.2, "value": 325}
FAILURE: dict[str, Any] = {
    "call_id": "k-3",
    "success": False,
    "duration": 31,
    "error": {"message": "Mailbox is busy", "can_retry": True, "retry_after_ms": 750},
}
CHALLENGE: dict[str, Any] = {
    "message": "Connect your mailbox first",
    "missing_requirements": {
        "authorization": [
            {"id": "ch-77", "url": "https://gw.example/authorize/ch-77", "check_url": "https://gw.example/check/ch-77"}
        ],
        "user_id": True,
    },
}
WRONG_INPUT: dict[str, Any] = {"message": "Check the highlighted fields", "parameter_errors": {"to": "is required"}}


def answer_head(dialect: str, operation: Operation, status: int) -> dict[str, str]:
    """The headers a faultless answer has."""
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
    return head | {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}, 429: {"Retry-After": "2"}}.get(
        status, {}
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
    check(dialect, operation, status, answer_head(dialect, operation, status), json.dumps(document).encode())


TENTH = SEARCH | {"id": "Mail.Search@10.0.0", "version": "10.0.0"}
NINTH = SEARCH | {"id": "Mail.Search@9.0.0", "version": "9.0.0"}
WITHOUT_OUTPUT = {member: value for member, value in SEARCH.items() if member != "output_schema"}
CONNECT = {"id": "x", "url": "https://x.example/"}
OLD_TOOLKIT = {"name": "Mail", "description": "", "version": "1.0.0"}
NO: dict[str, Any] = {"message": "no"}


def rfc_result(success: bool, **output: Any) -> Any:
    return {"$schema": RFC, "call_id": "k", "success": success, "output": output}


def lc_result(**members: Any) -> Any:
    return {"call_id": "k", **members}


def listing(**changes: Any) -> Any:
    """A flat catalogue of one tool that is not quite right."""
    return {"items": [SEARCH | changes]}


def rfc_listing(**changes: Any) -> Any:
    return {"$schema": RFC, "tools": [IN_RFC | changes]}


def missing(**requirements: Any) -> Any:
    return NO | {"missing_requirements": requirements}


BAD: list[tuple[str, str, Operation, int, Any]] = [
    ("value and error", "otc", "call", 200, {"$schema": OTC, "result": VALUE | {"error": NO}}),
    ("success without value", "oxp", "call", 200, {"call_id": "k", "success": True}),
    ("failure without error", "oxp", "call", 200, {"call_id": "k", "success": False}),
    ("failure with value", "oxp", "call", 200, FAILURE | {"value": 1}),
    ("success that is no boolean", "oxp", "call", 200, VALUE | {"success": "true"}),
    ("no call_id", "oxp", "call", 200, {"success": True, "value": 1}),
    ("empty call_id", "oxp", "call", 200, VALUE | {"call_id": ""}),
    ("negative duration", "oxp", "call", 200, VALUE | {"duration": -1}),
    ("duration as text", "oxp", "call", 200, VALUE | {"duration": "4ms"}),
    ("unknown member", "oxp", "call", 200, VALUE | {"output": {}}),
    ("error without message", "oxp", "call", 200, FAILURE | {"error": {"can_retry": True}}),
    ("can_retry as text", "oxp", "call", 200, FAILURE | {"error": {"message": "no", "can_retry": "yes"}}),
    ("half a millisecond", "oxp", "call", 200, FAILURE | {"error": {"message": "no", "retry_after_ms": 0.5}}),
    ("flat in an enveloped dialect", "otc", "call", 200, {"$schema": OTC} | VALUE),
    ("enveloped in the flat dialect", "oxp", "call", 200, {"result": VALUE}),
    ("$schema in the flat dialect", "oxp", "call", 400, {"$schema": ENV, "message": "no"}),
    ("no $schema", "otc", "call", 200, {"result": VALUE}),
    ("$schema of another dialect", "otc", "call", 200, {"$schema": ENV, "result": VALUE}),
    ("$schema of another version", "oxp-env", "call", 200, {"$schema": "urn:oxp:2.0", "result": VALUE}),
    ("RFC without $schema on a 401", "rfc", "call", 401, NO),
    ("RFC value beside output", "rfc", "call", 200, {"$schema": RFC, "output": {"value": 1}} | VALUE),
    ("RFC output with both", "rfc", "call", 200, rfc_result(True, value=1, error=NO)),
    ("RFC success with an error", "rfc", "call", 200, rfc_result(True, error=NO)),
    ("LC success without value", "lc", "call", 200, lc_result(success=True)),
    ("LC success with error", "lc", "call", 200, lc_result(success=True, value=1, error=NO)),
    ("LC failure with a value", "lc", "call", 200, lc_result(success=False, value=1, error=NO)),
    ("LC with duration", "lc", "call", 200, lc_result(success=True, value=1, duration=1)),
    ("LC error without detail", "lc", "call", 400, NO),
    ("LC list in an object", "lc", "list", 200, {"items": []}),
    ("error without message", "otc", "call", 400, {"$schema": OTC, "detail": "no"}),
    ("empty message", "otc", "call", 400, {"$schema": OTC, "message": ""}),
    ("error that is an array", "otc", "call", 400, ["no"]),
    ("error with a result", "otc", "call", 400, {"$schema": OTC, "message": "no", "result": VALUE}),
    ("parameter_errors on a 400", "otc", "call", 400, {"$schema": OTC} | WRONG_INPUT),
    ("parameter_errors as a list", "oxp", "call", 422, {"message": "no", "parameter_errors": ["to"]}),
    ("parameter error that is no text", "oxp", "call", 422, {"message": "no", "parameter_errors": {"to": 1}}),
    ("challenges on a 422", "oxp", "call", 422, CHALLENGE),
    ("challenge without url", "oxp", "call", 400, missing(authorization=[{"id": "x"}])),
    ("challenge with more", "oxp", "call", 400, missing(authorization=[CONNECT | {"token": "t"}])),
    ("challenge url that is none", "oxp", "call", 400, missing(authorization=[CONNECT | {"url": "not a url"}])),
    ("secret with its value", "oxp", "call", 400, missing(secrets=[{"id": "x", "value": "s"}])),
    ("nothing missing", "oxp", "call", 400, missing()),
    ("5xx on a call", "oxp", "call", 503, NO),
    ("500 on a list", "oxp", "list", 500, NO),
    ("201", "oxp", "call", 201, VALUE),
    ("still running and a success", "oxp", "call", 202, VALUE),
    ("wrong input of a call that runs", "oxp", "kept", 422, WRONG_INPUT),
    ("5xx on a call that runs", "oxp", "kept", 503, NO),
    ("bare success", "bare", "call", 200, VALUE),
    ("bare error with more", "bare", "call", 415, {"message": "no", "$schema": OTC}),
    ("list under the other key", "otc", "list", 200, {"$schema": OTC, "items": []}),
    ("list under both keys", "otc", "list", 200, {"$schema": OTC, "tools": [], "items": []}),
    ("unwrapped input schema", "otc", "list", 200, {"$schema": OTC, "tools": [SEARCH]}),
    ("id without version", "oxp", "list", 200, listing(id="Mail.Search")),
    ("id without toolkit", "oxp", "list", 200, listing(id="Search@2.1.0")),
    ("id with a newline", "oxp", "list", 200, listing(id="Mail.Search@2.1.0\n")),
    ("id with foreign digits", "oxp", "list", 200, listing(id="Mail.Search@\u0662.1.0")),
    ("version of another tool", "oxp", "list", 200, listing(version="2.1.1")),
    ("short version", "oxp", "list", 200, listing(version="2.1")),
    ("name with a dot", "oxp", "list", 200, listing(name="Mail.Search")),
    ("name too long", "oxp", "list", 200, listing(name="x" * 65)),
    ("id twice", "oxp", "list", 200, {"items": [SEARCH, SEARCH]}),
    ("versions descending", "oxp", "list", 200, {"items": [TENTH, NINTH]}),
    ("definition with more", "oxp", "list", 200, listing(remote_id="x")),
    ("definition without output", "oxp", "list", 200, {"items": [WITHOUT_OUTPUT]}),
    ("input schema that is none", "oxp", "list", 200, listing(input_schema={"type": "strnig"})),
    ("requirement without id", "oxp", "list", 200, listing(requirements={"authorization": [{}]})),
    ("RFC without toolkit", "rfc", "list", 200, {"$schema": RFC, "tools": [WRAPPED]}),
    ("RFC value promised, not described", "rfc", "list", 200, rfc_listing(output={"available_modes": ["value"]})),
    ("RFC toolkit of another version", "rfc", "list", 200, rfc_listing(toolkit=OLD_TOOLKIT)),
    ("challenge state unknown", "otc", "challenge", 200, {"status": "denied"}),
    ("challenge that talks", "otc", "challenge", 200, {"status": "failed", "message": "expired"}),
    ("challenge unknown as 404", "otc", "challenge", 404, {"status": "failed"}),
    ("health that talks", "otc", "health", 200, {"status": "ok", "backends": {}}),
    ("health without status", "otc", "health", 200, {}),
    ("health as 500", "otc", "health", 500, {"status": "down"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "operation", "status", "document"), [case[1:] for case in BAD], ids=[c[0] for c in BAD]
)
def test_a_wrong_body_fails(dialect: str, operation: Operation, status: int, document: Any) -> None:
    with pytest.raises(AssertionError):
        check(dialect, operation, status, answer_head(dialect, operation, status), json.dumps(document).encode())


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
    body = json.dumps(document).encode()
    right = answer_head(dialect, operation, status)
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
