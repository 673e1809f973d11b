"""Every style of parameters, character by character (OpenAPI 3.2, Style Examples; RFC 6570)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.openapi.plan import Style, Where
from tests.unit.openapi.requesting import parameter, plan_of, refusal, sent_as

TEXT, ARRAY, OBJECT = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}

REFUSED = object()
SPACED = "color=R%20100%20G%20200%20B%20150"
PIPED = "color=R%7C100%7CG%7C200%7CB%7C150"
DEEP = "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"
# Style and explode; where; what is sent for an empty text, a text, an array and an object.
STYLES: list[tuple[Style, bool, Where, Any, Any, Any, Any]] = [
    ("simple", False, "path", REFUSED, "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, "path", REFUSED, "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("simple", False, "header", "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, "header", "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("label", False, "path", REFUSED, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("label", True, "path", REFUSED, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("matrix", False, "path", ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("matrix", True, "path", ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ("form", False, "query", "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "query", "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("form", False, "cookie", "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "cookie", "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("cookie", False, "cookie", "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("cookie", True, "cookie", "color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"),
    ("spaceDelimited", False, "query", "color=", "color=blue", "color=blue%20black%20brown", SPACED),
    ("pipeDelimited", False, "query", "color=", "color=blue", "color=blue%7Cblack%7Cbrown", PIPED),
    ("spaceDelimited", True, "query", "color=", "color=blue", "color=blue&color=black&color=brown", REFUSED),
    ("pipeDelimited", True, "query", "color=", "color=blue", "color=blue&color=black&color=brown", REFUSED),
    ("deepObject", True, "query", REFUSED, REFUSED, REFUSED, DEEP),
    ("deepObject", False, "query", REFUSED, REFUSED, REFUSED, DEEP),
]


@pytest.mark.parametrize(("style", "explode", "where", "empty", "text", "array", "members"), STYLES)
def test_openapi_30_each_style_is_on_the_wire_as_the_specification_shows_it(
    style: Style, explode: bool, where: Where, empty: Any, text: Any, array: Any, members: Any
) -> None:
    one = parameter(where, style=style, explode=explode)
    for value, expected in (("", empty), (TEXT, text), (ARRAY, array), (OBJECT, members)):
        if expected is REFUSED:
            assert refusal(plan_of(one), {"color": value}).keys() == {"color"}
        else:
            assert sent_as(one, value) == expected
