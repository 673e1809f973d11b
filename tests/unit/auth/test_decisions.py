"""What the authorization service is asked, and how its answers are read: the data API of Open Policy Agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.auth.decisions import Decision, UnusableAnswerError, encode_question, read_decision
from gateway.core.model import CallContext, ToolCall, ToolRef
from gateway.core.ports import Caller, Target

TARGET = Target("Mail.Send", "1.2.0", "post", "post/Mail.*")
CALL = ToolCall(ref=ToolRef(tool="Mail.Send"), arguments={"to": "ada"}, context=CallContext(user_id="ada"))
ABOUT_CALL = {"tool": "Mail.Send", "version": "1.2.0", "backend": "post", "route": "Mail.*", "dialect": "oxp"}

CALLERS: list[tuple[Caller, dict[str, Any]]] = [
    (
        Caller(principal="jwt:https://login.example.com:a%3Ab%253A", scopes=frozenset({"b", "a"})),
        {"issuer": "https://login.example.com", "subject": "a:b%3A", "scopes": ["a", "b"]},
    ),
    (Caller(principal="jwt::ada"), {"issuer": "", "subject": "ada", "scopes": []}),
    (Caller(principal="key:night"), {"key": "night", "scopes": []}),
    (Caller(principal="anonymous"), {"scopes": []}),
]


@pytest.mark.parametrize(("caller", "about"), CALLERS, ids=[caller.principal for caller, _ in CALLERS])
def test_a_question_names_the_caller_the_tool_and_the_user(caller: Caller, about: dict[str, Any]) -> None:
    asked = json.loads(encode_question(CALL, TARGET, caller, "oxp"))
    assert asked == {"input": {"principal": caller.principal, "user": "ada", **ABOUT_CALL, **about}}


def test_arguments_are_told_only_if_asked_for() -> None:
    asked = [
        encode_question(CALL, TARGET, Caller(principal="anonymous"), "oxp", with_arguments=it) for it in (False, True)
    ]
    assert b'"to"' not in asked[0]
    assert json.loads(asked[1])["input"]["arguments"] == {"to": "ada"}


ANSWERS: list[tuple[Any, Decision]] = [
    ({"result": True}, Decision(True)),
    ({"result": False, "decision_id": "1"}, Decision(False, "denied")),
    ({"result": {"allow": True, "reason": "ignored"}}, Decision(True)),
    ({"result": {"allow": False, "reason": "office.hours:1"}}, Decision(False, "office.hours:1")),
    ({"result": {"allow": False}}, Decision(False, "denied")),
    *[({"result": {"allow": False, "reason": it}}, Decision(False, "denied")) for it in (7, "", "two words", "x" * 65)],
    ({}, Decision(False, "undecided")),  # a policy that does not speak of the call
    ({"result": {}}, Decision(False, "undecided")),
    ({"result": {"reason": "no_rule"}}, Decision(False, "no_rule")),
]


@pytest.mark.parametrize(("answer", "decision"), ANSWERS, ids=[json.dumps(answer)[:48] for answer, _ in ANSWERS])
def test_only_true_allows_a_call(answer: Any, decision: Decision) -> None:
    assert read_decision(200, json.dumps(answer).encode()) == decision


UNUSABLE: list[tuple[int, bytes, str]] = [
    (500, b'{"result": true}', "status 500"),
    (302, b"", "status 302"),
    (200, b"<html>canary</html>", "the answer is not JSON"),
    (200, b"", "the answer is not JSON"),
    (200, b"[" * 100, "the answer is not JSON"),
    (200, b"[true]", "the answer is no JSON object"),
    (200, b"true", "the answer is no JSON object"),
    (200, b'{"result": "true"}', "'result' is neither true nor false, and no object"),
    (200, b'{"result": null}', "'result' is neither true nor false, and no object"),
    (200, b'{"result": {"allow": 1}}', "'result.allow' is neither true nor false"),
    (200, b'{"result": {"allow": "canary"}}', "'result.allow' is neither true nor false"),
]


@pytest.mark.parametrize(("status", "body", "why"), UNUSABLE)
def test_what_is_no_decision_is_named_and_not_quoted(status: int, body: bytes, why: str) -> None:
    with pytest.raises(UnusableAnswerError) as caught:
        read_decision(status, body)
    assert str(caught.value) == why
