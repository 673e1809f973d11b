"""The part of an answer that callers get: a JMESPath expression, or a JSON Pointer (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gateway.core.jsontext import split_pointer
from gateway.core.model import Json
from gateway.protocols.openapi.document.texts import message_of

Select = Callable[[Json], Json]

SHORT = {"EmptyExpressionError": "it is empty", "IncompleteExpressionError": "it ends too early"}
MAX_EXPRESSION = 4096  # characters
BETWEEN = "\0"  # stands in no expression
# A number or a word that is compared, outside of quoted text.
LITERAL = re.compile(
    r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)"""
    r"""|((?:[=!<>]=|[<>])\s*)(true|false|null|-?[0-9]+(?:\.[0-9]+)?)(?![\w.(\[])"""
)
INDEX = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
WRONG_ESCAPE = re.compile(r"~(?![01])")


class SelectionError(ValueError):
    """An expression that means nothing, or does not fit what it is applied to; quotes no value."""


def judged(success: str, select: str) -> str:
    """An expression for `compiled` that selects `[true, what is selected]`, or `[false, the words of the service]`.

    `success` is a condition for the value, `select` an expression, or empty for all of it.
    """
    return f"{success}{BETWEEN}{select}"


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Select:
    """What selects by an expression; a JSON Pointer begins with a slash. What it does not find is null.

    Raises SelectionError, with the position if there is one. What it returns raises SelectionError too.
    """
    if BETWEEN in expression:
        return _judging(*expression.split(BETWEEN, 1))
    if len(expression) > MAX_EXPRESSION:
        raise SelectionError(f"it is longer than {MAX_EXPRESSION} characters")
    if expression.startswith("/"):
        return _by_pointer(expression)
    return _by_jmespath(expression)


@lru_cache(maxsize=1024)
def condition(expression: str) -> Callable[[Json], bool]:
    """What tells whether a value meets a condition: JMESPath, in which what is compared may stand as in JSON.

    `ok == true` is "ok == `true`", which JMESPath takes for a member called true. Raises as `compiled`.
    """
    select = compiled(LITERAL.sub(lambda match: match[1] or f"{match[2]}`{match[3]}`", expression))

    def meets(value: Json) -> bool:
        try:
            match = select(value)
        except SelectionError as exc:
            raise SelectionError(f"the condition `success` of the operation cannot be evaluated: {exc}") from None
        return (isinstance(match, int | float) and match is not False) or bool(match)  # for JMESPath 0 is true

    return meets


def _judging(success: str, select: str) -> Select:
    meets, value_of = condition(success), compiled(select) if select else None

    def judge(value: Json) -> Json:
        if not meets(value):
            return [False, message_of(value)]
        return [True, value if value_of is None else value_of(value)]

    return judge


def _by_jmespath(expression: str) -> Select:
    import jmespath  # late: most gateways, and the child of each, do without it
    from jmespath.exceptions import JMESPathError

    try:
        parsed = jmespath.compile(expression)
        _check_functions(parsed.parsed)
    except SelectionError:
        raise
    except (ValueError, RecursionError) as exc:
        raise SelectionError(f"it is no JMESPath expression: {_reason(exc)}") from exc

    def select(value: Json) -> Json:
        try:
            return parsed.search(value)
        except (JMESPathError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as exc:
            raise SelectionError(f"the expression does not fit the answer ({type(exc).__name__})") from None
        except RecursionError:
            raise SelectionError("the expression is too deep for the answer") from None

    return select


def _reason(exc: Exception) -> str:
    """What is wrong, and where; without the drawing of the library."""
    if (kind := type(exc).__name__) in SHORT:
        return SHORT[kind]
    position, word = getattr(exc, "lex_position", None), getattr(exc, "token_value", None)
    where = f" at column {position + 1}" if isinstance(position, int) else ""
    return f"unexpected {word!r}{where}" if word else f"it cannot be read{where}"


def _check_functions(node: Any) -> None:
    """The library looks for functions when it comes to them. Raises SelectionError."""
    from jmespath.functions import Functions

    if node["type"] == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
        raise SelectionError(f"there is no function {node['value']!r} in JMESPath")
    for child in node["children"]:
        if isinstance(child, dict) and "children" in child:
            _check_functions(child)


def _by_pointer(pointer: str) -> Select:
    wrong = WRONG_ESCAPE.search(pointer)
    if wrong is not None:
        raise SelectionError(f"it is no JSON Pointer: '~' at column {wrong.start() + 1}")
    tokens = split_pointer(pointer)

    def select(value: Json) -> Json:
        for token in tokens:
            if isinstance(value, dict):
                value = value.get(token)
            elif isinstance(value, list) and INDEX.fullmatch(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                return None
        return value

    return select
