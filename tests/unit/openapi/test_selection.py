"""Expressions that select from answers: what they find, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.openapi.selection import SelectionError, compiled

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
