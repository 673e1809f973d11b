"""Expressions that select from answers: what they find, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.openapi.document.selection import SelectionError, compiled, condition, judged

DOCUMENT = {"": 0, "a/b": 1, "m~n": 2, "list": [{"x": 1}, {"x": 2}], "01": 3, "d": {"": 4}}

FOUND: list[tuple[str, Any]] = [
    ("/", 0),  # RFC 6901, section 5
    ("/a~1b", 1),
    ("/m~0n", 2),
    ("/01", 3),
    ("/d/", 4),
    ("/list/1/x", 2),
    *((pointer, None) for pointer in ("/list/01", "/list/-1", "/list/2", "/list/-", "/list/x", "/a", "/list/0/x/0")),
    ("list[?x > `1`].x", [2]),
    ("list[].{n: x}", [{"n": 1}, {"n": 2}]),
    ("length(list)", 2),
    ("nothing.here", None),
]


@pytest.mark.parametrize(("expression", "value"), FOUND)
def test_openapi_58_an_expression_selects(expression: str, value: Any) -> None:
    assert compiled(expression)(DOCUMENT) == value


WRONG = {
    "": "it is no JMESPath expression: it is empty",
    "a[": "it is no JMESPath expression: it ends too early",
    "a..b": "it is no JMESPath expression: unexpected '.' at column 3",
    "a | nix(b)": "there is no function 'nix' in JMESPath",
    "[].{n: sum(b), m: nix(b)}": "there is no function 'nix' in JMESPath",
    "/a~2": "it is no JSON Pointer: '~' at column 3",
    "a" * 5000: "it is longer than 4096 characters",
    "(" * 2000: "it is no JMESPath expression: it cannot be read",
}


@pytest.mark.parametrize("expression", WRONG)
def test_openapi_58_an_expression_that_means_nothing_is_told_with_the_place(expression: str) -> None:
    with pytest.raises(SelectionError) as raised:
        compiled(expression)
    assert str(raised.value) == WRONG[expression]


@pytest.mark.parametrize("expression", ["abs(list)", "sum(list)", "join('', list)", "sort_by(list, &nix)"])
def test_openapi_58_what_an_expression_does_not_fit_is_not_quoted(expression: str) -> None:
    with pytest.raises(SelectionError) as raised:
        compiled(expression)({"list": ["secret", {"x": 1}]})
    assert "secret" not in str(raised.value)


CONDITIONS: list[tuple[str, list[Any], list[Any]]] = [  # with values that meet it, and others
    ("ok == true", [{"ok": True}], [{"ok": False}, {"ok": 1}, {}, [], None, {"true": 1, "ok": 1}]),
    ("ok == `true`", [{"ok": True}], [{"ok": False}, {}]),
    (
        "ok",
        [{"ok": True}, {"ok": "yes"}, {"ok": 0}],
        [{"ok": False}, {"ok": None}, {"ok": ""}, {"ok": []}, {"ok": {}}, {}],
    ),
    ("code == 0", [{"code": 0}], [{"code": 1}, {"code": "0"}, {}]),
    ("error==null && code <=-1.5", [{"code": -2}], [{"code": 0}, {"error": "x", "code": -2}]),
    ("status != 'a == true'", [{"status": "b"}], [{"status": "a == true"}]),
    ("!error", [{}, {"error": ""}], [{"error": {"code": 1}}]),
    ("/ok", [{"ok": 1}], [{"ok": None}]),
    ("trueish == truely", [{"trueish": 1, "truely": 1}], [{"trueish": 1}]),
    ("a == true.b", [{"a": 1, "true": {"b": 1}}], [{"a": 1}]),
]


@pytest.mark.parametrize(("expression", "good", "bad"), CONDITIONS)
def test_a_condition_is_met_as_it_reads(expression: str, good: list[Any], bad: list[Any]) -> None:
    meets = condition(expression)
    assert [meets(value) for value in good] == [True] * len(good)
    assert [value for value in bad if meets(value)] == []


def test_a_value_is_judged_before_anything_is_selected() -> None:
    for select, value in (("", {"ok": True, "x": [1]}), ("x[0]", 1), ("/x", [1])):
        assert compiled(judged("ok == true", select))({"ok": True, "x": [1]}) == [True, value]
        assert compiled(judged("ok == true", select))({"ok": False, "error": "not_found"}) == [False, "not_found"]


@pytest.mark.parametrize("expression", ["", "ok ==", "nix(ok)", "/~2"])
def test_a_condition_that_means_nothing_is_told(expression: str) -> None:
    with pytest.raises(SelectionError):
        condition(expression)
