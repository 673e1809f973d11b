"""Paths of requests: whatever an argument holds, the request goes where the document says."""

from __future__ import annotations

import itertools
from urllib.parse import unquote

import pytest

from gateway.protocols.openapi.document.plan import CallPlan, Style
from tests.unit.protocols.openapi.document.requesting import parameter, plan_of, refusal, send, sent_as

ID = parameter("path", "id")
BRANCH = parameter("path", "id", encoded_slashes=True)


DOTS = ["%2e", "%2E", "%252e", "%25252E", "%c0%ae", "\uff0e", "%EF%BC%8E"]
SEPARATORS = ["%2f", "%252F", "%5c", "\\", "%c0%af"]
CLIMBING = [
    *[".", "..", "../x", "../../admin", "x/..", "x/../y", "./x", "/..", "..;", "..;a=b", "..;/x", ".. ", " ."],
    *(f"{first}{second}" for first, second in itertools.product([".", *DOTS], DOTS)),
    *(f"..{slash}admin" for slash in SEPARATORS),
    *(f"x{slash}..{slash}y" for slash in SEPARATORS),
    *["\\..\\x", "x\\y", "%5c", "%255c", "a\x00b", "%00", "%2500", "a\r\nb", "%0d%0a", "a\x7fb", "\x85", "\t"],
    *["%ff", "%c0%ae%c0%ae", "%" + "25" * 12 + "2e", "\u2025", ""],
]
SLASHES = ["a/b", "/a", "a/", "/", "//", "a%2fb", "a%2Fb", "a%252fb", "https://evil.example/"]
# What looks dangerous and is a value like others.
DATA = [
    *["a?b", "a?x=1", "a#f", "#", "?", "a b", "+", "a;b", "a=b", "a&b", "a:b", "@host", "a,b", "100%", "5%2", "%zz"],
    *["file.txt", "...", "a..b", "..a", ".hidden", "x.", "~", "é", "日本", "\u202e", "\u00a0x", "'", '"', "<b>", "%s"],
    *["{id}", "%41", "%2541", "$(x)", "http:", "a|b", "^", "`", "%E2%82%AC"],
]


def test_openapi_38_a_value_that_could_mean_another_path_is_refused() -> None:
    for value in (*CLIMBING, *SLASHES):
        assert refusal(plan_of(ID, path="/users/{id}/keys"), {"id": value}).keys() == {"id"}, value
    for value in CLIMBING:
        assert refusal(plan_of(BRANCH), {"id": value}).keys() == {"id"}, value


def test_openapi_38_any_other_value_is_one_segment_that_decodes_to_it() -> None:
    for value in DATA:
        path = send(plan_of(ID, path="/users/{id}/keys"), {"id": value}).path
        before, segment, after = path.rsplit("/", 2)
        assert (before, unquote(segment), after) == ("/users", value, "keys")
        assert path.isascii()
        assert not set(path) & set(' ?#"<>\\^`{|}')


def test_openapi_38_a_slash_is_sent_encoded_where_the_operator_allows_it() -> None:
    for value in SLASHES[:-1]:
        sent = sent_as(BRANCH, value)
        assert sent is not None
        assert "/" not in sent
        assert unquote(sent) == value


@pytest.mark.parametrize(("style", "explode"), [*itertools.product(["label", "matrix"], [False, True])])
def test_openapi_38_the_text_of_a_style_makes_no_dots_of_a_path(style: Style, explode: bool) -> None:
    one = parameter("path", "id", style, explode=explode)
    values = ["../x", "a/b", "a\\b", ["a", "/.."], {"a": "x/y"}, {"../": 1}, {"..": {}}]
    values += ["", ".", [""], ["."]] if style == "label" else []
    for value in values:
        assert refusal(plan_of(one), {"id": value}).keys() == {"id"}
    assert sent_as(one, "a") is not None


def test_openapi_38_values_that_only_climb_together_are_refused() -> None:
    plan = plan_of(parameter("path", "a"), parameter("path", "b"), path="/x/{a}{b}/y")
    for first, second in ((".", "."), ("%2", "e."), ("%", "2e%2e"), (".%2", "E")):
        assert refusal(plan, {"a": first, "b": second}).keys() == {"a", "b"}
    assert send(plan, {"a": ".", "b": "a"}).path == "/x/.a/y"
    assert refusal(plan_of(ID, path="/x/{id};v=1"), {"id": ".."}).keys() == {"id"}


# Templates are put on the wire as the document has them: a trailing slash is another path.
TEMPLATES = {
    "/": "/",
    "/items/": "/items/",
    "/items/{id}/": "/items/7/",
    "/{id}/{id}": "/7/7",
    "/v1/x-{id}.json": "/v1/x-7.json",
    "/a({id})": "/a(7)",
    "/{id}/{a/b}": "/7/8",
    "/a:{id}:cancel": "/a:7:cancel",
    "/100%25/{id}": "/100%25/7",
    "/%s/{id}%d": "/%s/7%d",
    "/é b/{id}": "/%C3%A9%20b/7",
    "/a;v=1/@{id}": "/a;v=1/@7",
    "/a\\b\n/{id}": "/a%5Cb%0A/7",
}


def test_openapi_40_templates_keep_their_characters_and_repeat_their_placeholders() -> None:
    assert {
        template: send(plan_of(ID, parameter("path", "a/b"), path=template), {"id": 7, "a/b": 8}).path
        for template in TEMPLATES
    } == TEMPLATES


def test_all_that_is_wrong_is_told_at_once() -> None:
    plan: CallPlan = plan_of(ID, parameter("query", "q", "deepObject"), parameter("header", "h", required=True))
    assert refusal(plan, {"id": {}, "q": {"[": 1}}) == {
        "id": "is empty",
        "q": "has a member whose name holds a bracket",
        "h": "is required",
    }
