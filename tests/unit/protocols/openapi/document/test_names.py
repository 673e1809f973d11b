"""What tools made of operations are called, whatever the order of a document and whatever stands in its texts."""

from __future__ import annotations

import re
import unicodedata
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.tool_names import published_name
from gateway.protocols.common.listing import Bounds
from gateway.protocols.openapi.document.curation import (
    MAX_DESCRIPTION,
    Terms,
    ToolTerms,
    description_of,
    tool_names,
    version_of,
)
from gateway.protocols.openapi.document.operations import Operation

BOUNDS = Bounds(backend="api", toolkit="Api", max_tools=100, max_schema_bytes=65536)
TERMS = Terms(bounds=BOUNDS, url="http://x")


def operation(place: str, id_: str = "", summary: str = "", description: str = "", *, old: bool = False) -> Operation:
    method, template = place.split(" ", 1)
    return Operation(
        method=method,
        template=template,
        prefix="",
        id=id_,
        summary=summary,
        description=description,
        is_deprecated=old,
    )


def named(*operations: Operation, **tools: str) -> dict[str, str]:
    """The names by place, which are the same in any order."""
    terms = Terms(bounds=BOUNDS, url="http://x", tools={key: ToolTerms(name=name) for key, name in tools.items()})
    found = tool_names(operations, terms)
    assert all(tool_names(order, terms) == found for order in permutations(operations))
    return found


NAMES = [
    ("GET /a", "issues/list-for-repo", "issues_list_for_repo"),
    ("GET /a", "read_item_items__item_id__get", "read_item_items__item_id__get"),
    ("GET /a", "Find pets.by-Tag", "Find_pets_by_Tag"),
    ("GET /a", "größe", "gr__e"),
    ("GET /repos/{owner}/issues", "", "get_repos_by_owner_issues"),
    ("GET /", "", "get_root"),
    ("DELETE /a-b/{userId}/", "", "delete_a_b_by_userid"),
    ("GET /a", "///", "get_a"),
    ("GET /a", "x" * 74, "x" * 74),
    ("GET /a", "x" * 200, "x" * 119 + "_aa20c23e"),
]


@pytest.mark.parametrize(("place", "id_", "name"), NAMES)
def test_openapi_11_12_an_operation_is_called_by_its_id_or_else_by_method_and_path(
    place: str, id_: str, name: str
) -> None:
    assert named(operation(place, id_)) == {place: name}


def test_openapi_13_operations_that_share_a_name_are_all_called_by_method_and_path() -> None:
    assert named(operation("GET /a", "list"), operation("GET /b", "List"), operation("GET /c", "other")) == {
        "GET /a": "get_a",
        "GET /b": "get_b",
        "GET /c": "other",
    }
    several = named(operation("GET /a-b"), operation("GET /a_b"), operation("GET /a/{x}"), operation("GET /a/{X}"))
    assert all(re.fullmatch("get_a_(b|by_x)_[0-9a-f]{8}", name) for name in several.values())
    assert len(set(several.values())) == 4
    # A name made of method and path may be the id of a third one.
    third = named(operation("GET /a", "x"), operation("GET /b", "x"), operation("POST /c", "get_a"))
    assert third == {"GET /a": third["GET /a"], "GET /b": "get_b", "POST /c": "post_c"}


IDS = st.sampled_from(["", "a", "A", "get_a", "get_b", "a-b", "post_a"])
PLACES = st.sampled_from([f"{method} /{path}" for method in ("GET", "POST") for path in ("a", "b", "a/b", "a-b")])


@given(st.dictionaries(PLACES, IDS, min_size=1))
def test_openapi_13_names_are_unique_and_one_more_operation_changes_only_those_it_meets(ids: dict[str, str]) -> None:
    operations = [operation(place, id_) for place, id_ in ids.items()]
    names = tool_names(operations, TERMS)
    assert tool_names(reversed(operations), TERMS) == names
    assert len({name.lower() for name in names.values()}) == len(ids)
    assert tool_names([*operations, operation("PUT /far", "away")], TERMS) == names | {"PUT /far": "away"}


def test_openapi_14_a_long_name_is_published_cut_and_stays_one() -> None:
    one, other = f"{'repos/' * 11}list-all", f"{'repos/' * 11}list-any"
    names = named(operation("GET /a", one), operation("GET /b", other))
    published = {published_name(f"GitHub.{name}") for name in names.values()}
    assert (len(one), len(published), {len(name) for name in published}) == (74, 2, {64})


def test_openapi_16_a_name_of_the_operators_stands_and_others_make_way() -> None:
    a, b = operation("GET /a", "list"), operation("GET /b", "issues")
    assert named(a, b, list="issues") == {"GET /a": "issues", "GET /b": "get_b"}
    assert named(a, b, **{"GET /b": "bees", "issues": "never"}) == {"GET /a": "list", "GET /b": "bees"}
    # An operationId that several have gives none of them a name.
    assert named(a, operation("GET /b", "list"), list="mine") == {"GET /a": "get_a", "GET /b": "get_b"}


VERSIONS = [
    ("1.2.3", "1.2.3", False),
    ("v1", "1.0.0", False),
    (" 1.2 ", "1.2.0", False),
    ("2022-11-28", "2022.11.28", False),
    ("2022-11-28-preview", "2022.11.28", True),
    ("1.0.0-rc1+b5", "1.0.0", True),
    ("1.2.3.4", "1.2.3", True),
    ("3 beta", "3.0.0", True),
    ("latest", "1.0.0", True),
    ("7f3a9c1", "1.0.0", True),
    ("", "1.0.0", True),
    ("9" * 4000, "1.0.0", True),
]


@pytest.mark.parametrize(("text", "version", "warns"), VERSIONS)
def test_openapi_15_any_version_of_a_document_becomes_one_of_three_numbers(
    text: str, version: str, warns: bool
) -> None:
    found, warning = version_of(text)
    assert (found, bool(warning)) == (version, warns)
    assert len(warning) < 150


DESCRIPTIONS = [
    (operation("GET /a"), "GET /a"),
    (operation("GET /a", summary="List pets", description="Lists all."), "List pets\n\nLists all."),
    (operation("GET /a", summary="List pets", description="List pets that are sold."), "List pets that are sold."),
    (operation("GET /a", summary="List pets, all", description="List pets"), "List pets, all"),
    (operation("GET /a", summary="Old", old=True), "Deprecated. Old"),
    (operation("GET /a", description="<p>One <b>bold</b> &lt; <!-- x -->two</p>\r\nthree"), "One bold &lt; two\nthree"),
    (operation("GET /a", description="a < b and <https://x.example> `c`"), "a < b and <https://x.example> `c`"),
    (operation("GET /a", description="<scr<b>ipt>x</scr</b>ipt>"), "x"),
    (operation("GET /a", description="<" + "<b>" * 3 + "br>x"), "x"),
    (operation("GET /a", description="<br" * 20 + ">" * 20 + "x"), "br" * 12 + ">" * 12 + "x"),
    (operation("GET /a", summary="a\x1b[2Jb\u202ec\u200bd\U000e0041e"), "a[2Jbcde"),
]


@pytest.mark.parametrize(("it", "text"), DESCRIPTIONS)
def test_what_models_are_told_is_the_documents_text_without_markup_and_what_does_not_show(
    it: Operation, text: str
) -> None:
    assert description_of(it, ToolTerms()) == text
    assert description_of(it, ToolTerms(description="Ours.")) == "Ours."


STEERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # of the direction of what follows


@given(st.text(alphabet="<>!-/a \n", max_size=200) | st.text(max_size=3000))
def test_any_text_becomes_a_short_one(text: str) -> None:
    found = description_of(operation("GET /a", description=text), ToolTerms())
    assert 0 < len(found) <= MAX_DESCRIPTION
    assert not [char for char in found if unicodedata.category(char) == "Cc" and char not in "\n\t"]
    assert not STEERING & set(map(unicodedata.bidirectional, found))


def test_a_long_text_is_cut_between_words_and_one_of_markup_alone_takes_no_time() -> None:
    cut = description_of(operation("GET /a", description="word " * 1000), ToolTerms())
    assert cut.endswith("word …")
    assert MAX_DESCRIPTION - 10 < len(cut) <= MAX_DESCRIPTION
    assert len(description_of(operation("GET /a", description="<!-" * 1_000_000), ToolTerms())) <= MAX_DESCRIPTION
