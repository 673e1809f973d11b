"""The line of a request: which members it has, in JSON and in text."""

from __future__ import annotations

import json
import re

import pytest

from gateway.http.accesslog import MAX_WORD, AccessLine, AccessLog, TextLine, bounded

TIME = "2023-11-14T22:13:20.062Z"
CALL = (
    *(TIME, "request-1", "call", "/tools/call", 200, 12.345, 300, 400, "otc", "", "jwt:https://issuer.example:alice"),
    *("Calculator.Add", "1.0.0", "calculator", "ok", "", 11.0, "203.0.113.1", "mine", "tg-ours"),
)


def test_a_call_has_all_there_is_to_say() -> None:
    line = bytes(AccessLine(*CALL))
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "time": TIME,
        "level": "info",
        "logger": "gateway.access",
        "message": "request",
        "request_id": "request-1",
        "operation": "call",
        "route": "/tools/call",
        "status": 200,
        "duration_ms": 12.345,
        "bytes_in": 300,
        "bytes_out": 400,
        "dialect": "otc",
        "principal": "jwt:https://issuer.example:alice",
        "tool": "Calculator.Add",
        "version": "1.0.0",
        "backend": "calculator",
        "outcome": "ok",
        "tool_ms": 11.0,
        "client": "203.0.113.1",
        "call_id": "mine",
        "toolgate_call_id": "tg-ours",
    }


def test_what_a_request_has_not_got_is_left_out() -> None:
    line = json.loads(bytes(AccessLine(TIME, "r", "poll", "/calls/{call_id}", 404, 1.0, 0, 10)))
    assert set(line) == {"time", "level", "logger", "message", "request_id", "operation", "route", "status"} | {
        "duration_ms",
        "bytes_in",
        "bytes_out",
    }


PRINCIPALS = ["\x1b[2J\r\n{", '"}', "lone \ud800 surrogate", "\u2028", "x" * 5000, "é" * 5000]


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_any_principal_and_any_call_id_fit_one_line_of_bounded_length(principal: str) -> None:
    word = bounded(principal)
    members = (TIME, "r", "poll", "/calls/{call_id}", 401, 1.0, 0, 0, None, "", word)
    line = bytes(AccessLine(*members, call_id=word))
    assert len(line.decode().splitlines()) == 1  # also to readers that take U+2028 or U+0085 for an end
    said = json.loads(line)
    assert max(len(said["principal"]), len(said["call_id"])) <= MAX_WORD * 2
    text = bytes(TextLine(*members, call_id=word)).decode()
    assert text[:-1].isprintable()


def test_people_read_what_they_look_for_first() -> None:
    text = bytes(TextLine(*CALL)).decode()
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d INFO    call /tools/call 200 in 12\.345 ms \(tool=Calculator\.Add@1\.0\.0, "
        r"backend=calculator, outcome=ok, dialect=otc, principal=jwt:https://issuer\.example:alice, "
        r"client=203\.0\.113\.1, call_id=mine, toolgate_call_id=tg-ours, request_id=request-1\)\n",
        text,
    )


def test_without_lines_nothing_is_written() -> None:
    assert AccessLog(None).put is None
