"""The oracle itself: each body that is wrong must fail."""

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

TENTH = SEARCH | {"id": "Mail.Search@10.0.0", "version": "10.0.0"}
NINTH = SEARCH | {"id": "Mail.Search@9.0.0", "version": "9.0.0"}
WITHOUT_OUTPUT = {member: value for member, value in SEARCH.items() if member != "output_schema"}
CONNECT = {"id": "x", "url": "https://x.example/"}
OLD_TOOLKIT = {"name": "Mail", "description": "", "version": "1.0.0"}


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
    head, document = coded(operation, status, document)
    with pytest.raises(AssertionError):
        check(dialect, operation, status, answer_head(dialect, operation, status) | head, json.dumps(document).encode())
