"""Every way that OpenAPI has to put a parameter into a request: as data, and as two documents.

One document is for the judges, with the schemas that values must keep to. The other is for the gateway: it takes
anything there, so that a wrong value reaches the judge in the same form as a right one. Names of parameters and members
are in lower case, since Prism compares them so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ARRAY = {"type": "array", "items": {"type": "integer"}}
OBJECT = {
    "type": "object",
    "properties": {"r": {"type": "integer"}, "g": {"type": "integer"}},
    "required": ["r", "g"],
}
# By type: its schema, a value that keeps to it, and one that does not.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "integer": ({"type": "integer"}, 7, "seven"),
    "boolean": ({"type": "boolean"}, True, "maybe"),
    "text": ({"type": "string", "enum": ["a b&c,d"]}, "a b&c,d", "a+b"),
    "array": (ARRAY, [1, 2], [1, "x"]),
    "object": (OBJECT, {"r": 1, "g": 2}, {"r": 1, "g": "x"}),
}
STYLES: dict[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
LISTS_ONLY = ("spaceDelimited", "pipeDelimited")  # what they make of other types is not defined, or not told apart


@dataclass(frozen=True)
class Case:
    """An operation with one parameter, named `p`. An empty `style` is a parameter with `content`."""

    where: str
    style: str
    explode: bool
    type: str

    @property
    def id(self) -> str:
        exploded = "_exploded" if self.explode else ""
        return f"{self.where}_{self.style or 'json'}{exploded}_{self.type}"

    @property
    def path(self) -> str:
        return f"/{self.id}/{{p}}" if self.where == "path" else f"/{self.id}"

    @property
    def right(self) -> Any:
        return VALUES[self.type][1]

    @property
    def wrong(self) -> Any:
        return VALUES[self.type][2]


def cases() -> Iterator[Case]:
    """Everything that is defined (OpenAPI 3.1, Style Values)."""
    for where, styles in STYLES.items():
        for style in styles:
            for explode in (False, True):
                for kind in VALUES:
                    if _is_defined(where, style, explode, kind):
                        yield Case(where, style, explode, kind)
    for where in STYLES:
        yield Case(where, "", False, "object")


def _is_defined(where: str, style: str, explode: bool, kind: str) -> bool:
    if style == "deepObject":
        return explode and kind == "object"
    if style in LISTS_ONLY:
        return not explode and kind in ("array", "object")
    if where == "cookie" and explode and kind in ("array", "object"):
        return False  # several cookies, which is a trap of the specification's
    # For one value both are the same.
    return not explode or kind in ("array", "object")


def document(*, strict: bool) -> dict[str, Any]:
    """An API with an operation for each case (OpenAPI 3.0)."""
    paths = {case.path: {"get": _operation(case, strict)} for case in CASES}
    return {"openapi": "3.0.3", "info": {"title": "styles", "version": "1.0.0"}, "paths": paths}


def _operation(case: Case, strict: bool) -> dict[str, Any]:
    schema = VALUES[case.type][0] if strict else _loose(case.type)
    parameter: dict[str, Any] = {"name": "p", "in": case.where, "required": True}
    if case.style:
        parameter |= {"style": case.style, "explode": case.explode, "schema": schema}
    else:
        parameter["content"] = {"application/json": {"schema": schema}}
    answer = {"description": "Understood.", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"operationId": case.id, "parameters": [parameter], "responses": {"200": answer}}


def _loose(kind: str) -> dict[str, Any]:
    """A schema for right and wrong values of a type, and of its form."""
    return {"type": kind} if kind in ("array", "object") else {}


CASES = tuple(cases())
