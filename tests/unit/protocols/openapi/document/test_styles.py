"""Every style of parameters, character by character (OpenAPI 3.2, Style Examples; RFC 6570)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.openapi.document.plan import Field, Style, Where
from tests.unit.protocols.openapi.document.requesting import (
    body_plan,
    header,
    parameter,
    plan_of,
    refusal,
    send,
    sent_as,
)

TEXT, ARRAY, OBJECT = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}

REFUSED = object()
FORM = "a%20b=c%26d&e=1&e=2&f=%7B%22g%22%3Anull%7D"
SPACED = "color=R%20100%20G%20200%20B%20150"
PIPED = "color=R%7C100%7CG%7C200%7CB%7C150"
DEEP_ARRAY = "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown"
FORM_TYPE = "application/x-www-form-urlencoded"
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
    ("deepObject", True, "query", "color=", "color=blue", DEEP_ARRAY, DEEP),
    ("deepObject", False, "query", "color=", "color=blue", DEEP_ARRAY, DEEP),
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


# A delimiter of the style stays as it is, and the same character within a value is encoded, or refused where the
# delimiter is encoded, too, or nothing is.
DELIMITERS: list[tuple[Style, bool, Where, Any, Any]] = [
    ("simple", False, "path", ["a,b", "c d", "é"], "a%2Cb,c%20d,%C3%A9"),
    ("simple", True, "path", {"a,b": "c=d"}, "a%2Cb=c%3Dd"),
    ("label", False, "path", ["a,b", "c.d", "é"], ".a%2Cb,c.d,%C3%A9"),
    ("label", True, "path", ["a,b", "c.d"], ".a%2Cb.c%2Ed"),
    ("matrix", False, "path", ["a,b", "c;d"], ";color=a%2Cb,c%3Bd"),
    ("matrix", True, "path", ["a,b", "c;d", ""], ";color=a%2Cb;color=c%3Bd;color"),
    ("matrix", True, "path", {"a;b": "", "c=": "d"}, ";a%3Bb;c%3D=d"),
    ("form", False, "query", ["a,b", "c d", "é"], "color=a%2Cb,c%20d,%C3%A9"),
    ("form", True, "query", ["a&b", "c=d", "e+f", "g#h"], "color=a%26b&color=c%3Dd&color=e%2Bf&color=g%23h"),
    ("form", True, "query", {"a&b": "c&d", "e=f": "g"}, "a%26b=c%26d&e%3Df=g"),
    ("spaceDelimited", False, "query", ["a,b", "é"], "color=a%2Cb%20%C3%A9"),
    ("spaceDelimited", False, "query", ["a", "c d"], REFUSED),
    ("pipeDelimited", False, "query", ["a,b", "c d"], "color=a%2Cb%7Cc%20d"),
    ("pipeDelimited", False, "query", {"a|b": 1}, REFUSED),
    ("deepObject", True, "query", {"a b": "c&d", "é": "x=y"}, "color%5Ba%20b%5D=c%26d&color%5B%C3%A9%5D=x%3Dy"),
    ("deepObject", True, "query", {"a][b": 1}, REFUSED),
    ("simple", False, "header", ["a b", "c=d;e"], "a b,c=d;e"),
    ("simple", False, "header", ["a,b"], REFUSED),
    ("simple", False, "header", ["é"], REFUSED),
    ("simple", True, "header", {"a=b": "c"}, REFUSED),
    ("simple", True, "header", {"a": "b=c"}, "a=b=c"),
    ("form", True, "cookie", "a; b=c, é%", "color=a%3B%20b=c%2C%20%C3%A9%25"),
    ("form", False, "cookie", ["a,b", "c;d"], "color=a%2Cb,c%3Bd"),
    ("form", True, "cookie", ["a&b", "c=d"], "color=a%26b&color=c%3Dd"),
    ("cookie", True, "cookie", "a%20b", "color=a%20b"),
    *(("cookie", True, "cookie", text, REFUSED) for text in ("a b", "a;b", "a,b", 'a"b', "a\\b", "é", "a\nb")),
    *(("cookie", True, "cookie", {name: "c"}, REFUSED) for name in ("a;b", "a/b", "")),
    ("cookie", False, "cookie", ["a,b"], REFUSED),
]


def test_openapi_31_what_separates_values_is_told_from_what_is_in_them() -> None:
    for style, explode, where, value, expected in DELIMITERS:
        one = parameter(where, style=style, explode=explode)
        if expected is REFUSED:
            assert refusal(plan_of(one), {"color": value}).keys() == {"color"}, (one, value)
        else:
            assert sent_as(one, value) == expected


SCALARS = [
    *[(True, "true"), (False, "false"), (0, "0"), (-7, "-7"), (2**63, "9223372036854775808"), ("", "")],
    *[(10.0, "10"), (-0.0, "0"), (1.5, "1.5"), (1e15, "1000000000000000"), (1e20, "1" + "0" * 20)],
    *[(1e21, "1e%2B21"), (5e-324, "5e-324"), ("null", "null"), ("10.0", "10.0"), ("\x00\n", "%00%0A")],
]


def test_openapi_32_values_are_written_as_any_server_reads_them() -> None:
    for value, expected in SCALARS:
        assert sent_as(parameter("query"), value) == f"color={expected}"


WHERE: list[Where] = ["query", "header", "cookie"]
NOTHING: list[Any] = [[], {}, {"a": None}]
NESTED: list[Any] = [[[1]], [{}], {"a": [1]}, {"a": {"b": 1}}, [1, None]]


@pytest.mark.parametrize("where", WHERE)
def test_openapi_32_what_is_nothing_is_left_out_unless_it_is_required(where: Where) -> None:
    required = parameter(where, required=True)
    assert refusal(plan_of(required), {}) == {"color": "is required"}
    assert refusal(plan_of(required), {"color": None}) == {"color": "is required"}
    for nothing in NOTHING:
        assert sent_as(parameter(where), nothing) is None
        assert refusal(plan_of(required), {"color": nothing}) == {"color": "is empty"}


def test_openapi_32_a_path_needs_a_value() -> None:
    for nothing in (None, *NOTHING, "", [""]):
        assert refusal(plan_of(parameter("path")), {"color": nothing}).keys() == {"color"}


@pytest.mark.parametrize("where", ["path", *WHERE])
def test_a_value_that_has_no_form_is_refused_and_never_written_as_python_does(where: Where) -> None:
    for nested in NESTED:
        assert refusal(plan_of(parameter(where)), {"color": nested}).keys() == {"color"}


RESERVED = ":/?#[]@!$&'()*+,;="


@pytest.mark.parametrize(
    ("where", "name", "value", "expected"),
    [
        ("query", "q=", RESERVED, "q%3D=:/?%23[]@!$%26'()*%2B,;="),
        ("path", "q", RESERVED.translate(str.maketrans("", "", "/;")), ":%3F%23[]@!$&'()*+,="),
        ("path", "q", "a/b", None),
    ],
)
def test_openapi_33_reserved_characters_stay_where_they_may(
    where: Where, name: str, value: str, expected: str | None
) -> None:
    allowed = parameter(where, name, allow_reserved=True)
    if expected is None:
        assert refusal(plan_of(allowed), {name: value}).keys() == {name}
    else:
        assert sent_as(allowed, value) == expected
        assert sent_as(parameter(where, name), value) != expected


def test_openapi_33_reserved_characters_that_separate_items_are_encoded_within_them() -> None:
    joined = parameter("query", style="form", explode=False, allow_reserved=True)
    assert sent_as(joined, ["a,b", "c/d"]) == "color=a%2Cb,c/d"
    assert sent_as(parameter("query", allow_reserved=True), ["a,b", "c/d"]) == "color=a,b&color=c/d"
    assert sent_as(joined, "%41") == "color=%2541"  # values are data, also where they look encoded


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("query", {"a": [1, "é b"], "n": None}, "color=%7B%22a%22%3A%5B1%2C%22%C3%A9%20b%22%5D%2C%22n%22%3Anull%7D"),
        ("query", [], "color=%5B%5D"),
        ("path", ["x"], "%5B%22x%22%5D"),
        ("header", {"a": "é\n"}, r'{"a":"\u00e9\n"}'),
        ("cookie", {"a": ";"}, "color={%22a%22:%22%3B%22}"),
    ],
)
def test_openapi_34_a_parameter_with_content_is_json(where: Where, value: Any, expected: str) -> None:
    assert sent_as(parameter(where, media_type="application/json"), value) == expected
    plain = plan_of(parameter(where, media_type="text/plain"))
    assert refusal(plain, {"color": value}).keys() == {"color"}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ("repeat", "f[a][b]=1&f[a][c]=true&f[d]=x&f[d]=y&f[e][g]=z"),
        ("brackets", "f[a][b]=1&f[a][c]=true&f[d][]=x&f[d][]=y&f[e][g]=z"),
        ("indexes", "f[a][b]=1&f[a][c]=true&f[d][0]=x&f[d][1]=y&f[e][g]=z"),
    ],
)
def test_openapi_35_deep_objects_hold_objects_and_arrays(arrays: str, expected: str) -> None:
    deep = parameter("query", "f", "deepObject", deep_arrays=arrays)
    value = {"a": {"b": 1, "c": True}, "d": ["x", "y"], "e": {"g": "z", "h": None}, "i": [], "j": {}}
    sent = sent_as(deep, value)
    assert sent is not None
    assert sent.replace("%5B", "[").replace("%5D", "]") == expected
    for wrong in ([None], {"a": [None]}, {"a]": 1}):
        assert refusal(plan_of(deep), {"f": wrong}).keys() == {"f"}


# As qs, PHP, Rails and payment APIs read them. An item with members always has its number.
DEEP_VALUES: list[tuple[Any, str, str, str]] = [
    (["x", "y"], "f[]=x&f[]=y", "f[]=x&f[]=y", "f[0]=x&f[1]=y"),
    ({"a": ["x"]}, "f[a]=x", "f[a][]=x", "f[a][0]=x"),
    (
        [{"price": "p", "tags": ["a", "b"]}, {"price": "q"}],
        "f[0][price]=p&f[0][tags]=a&f[0][tags]=b&f[1][price]=q",
        "f[0][price]=p&f[0][tags][]=a&f[0][tags][]=b&f[1][price]=q",
        "f[0][price]=p&f[0][tags][0]=a&f[0][tags][1]=b&f[1][price]=q",
    ),
    ({"a": [[1], [2]]}, "f[a][0][]=1&f[a][1][]=2", "f[a][0][]=1&f[a][1][]=2", "f[a][0][0]=1&f[a][1][0]=2"),
    ({"a": [{"b": {"c": None, "d": 1}}]}, "f[a][0][b][d]=1", "f[a][0][b][d]=1", "f[a][0][b][d]=1"),
    (17, "f=17", "f=17", "f=17"),
    ("", "f=", "f=", "f="),
]


@pytest.mark.parametrize(("value", "repeat", "brackets", "indexes"), DEEP_VALUES)
def test_openapi_35_anything_has_a_form_in_deep_objects(value: Any, repeat: str, brackets: str, indexes: str) -> None:
    for arrays, expected in (("repeat", repeat), ("brackets", brackets), ("indexes", indexes)):
        deep = parameter("query", "f", "deepObject", deep_arrays=arrays)
        form = body_plan("form", FORM_TYPE, fields={"f": Field(style="deepObject")}, deep_arrays=arrays)
        sent = sent_as(deep, value)
        assert sent is not None
        assert sent.replace("%5B", "[").replace("%5D", "]") == expected
        assert send(form, {"body": {"f": value}}).body.decode() == sent


def test_openapi_36_all_cookies_stand_in_one_header() -> None:
    plan = plan_of(parameter("cookie", "a"), parameter("cookie", "b", "cookie"), parameter("header", "X-Tenant"))
    request = send(plan, {"a": "1 2", "b": 3, "X-Tenant": "t"})
    assert request.headers[1:] == ((b"x-tenant", b"t"), (b"cookie", b"a=1%202; b=3"))
    assert header(send(plan, {}), "cookie") is None


@pytest.mark.parametrize(
    ("media_type", "value", "expected"),
    [
        ("application/x-www-form-urlencoded", {"a b": "c&d", "e": [1, 2], "f": {"g": None}}, FORM),
        ("application/x-www-form-urlencoded", {"n": None}, None),
        ("application/json", {"a": 1}, "%7B%22a%22%3A1%7D"),
        ("text/plain", "a=b&c", "a%3Db%26c"),
    ],
)
def test_a_whole_query_can_be_one_argument(media_type: str, value: Any, expected: str | None) -> None:
    whole = parameter("querystring", "query", media_type=media_type)
    assert sent_as(whole, value) == expected
    assert refusal(plan_of(whole), {"query": [[1]] if "json" not in media_type else "x" * 20_000}).keys() == {"query"}
