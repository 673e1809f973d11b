"""Answers as the specifications show them, and the heads they come with."""

from __future__ import annotations

from typing import Any

from tests.oracle import Operation

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
    return head | {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}}.get(
        status, {"Retry-After": "2"} if status in (429, 503) else {}
    )


def coded(operation: Operation, status: int, document: Any) -> tuple[dict[str, str], Any]:
    """What an answer of ours has besides what the specifications show: the word for programs, in head and body."""
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


NO: dict[str, Any] = {"message": "no"}
