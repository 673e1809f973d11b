"""Right answers of every dialect and operation, for tests of what describes them."""

from __future__ import annotations

from typing import Any

from tests.oracle import Operation
from tests.wire import DIALECTS, definition_examples

RFC = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OTC = "otc://1.0"
ENV = "urn:oxp:1.0"
NO: dict[str, Any] = {"message": "no"}
LISTED = {dialect: [example.listed for example in definition_examples(dialect).values()][:1] for dialect in DIALECTS}
VALUE: dict[str, Any] = {"call_id": "k-2", "success": True, "duration": 4.2, "value": 325}
FAILURE: dict[str, Any] = {"call_id": "k-3", "success": False, "error": NO | {"can_retry": True}}


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
