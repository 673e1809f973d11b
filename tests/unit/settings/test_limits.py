"""Whether two patterns of tools have a tool in common."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.settings.limits import overlap

PATTERNS = st.text(alphabet="ab*?", max_size=4)
TEXTS = [f"{''.join(letters)}@1" for size in range(7) for letters in product("ab", repeat=size)]


@given(PATTERNS, PATTERNS)
def test_two_patterns_overlap_exactly_when_some_text_matches_both(one: str, other: str) -> None:
    # What two patterns of four have in common shows in a text of at most six: the fixed parts of both.
    common = any(fnmatchcase(text, f"{one}@*") and fnmatchcase(text, f"{other}@*") for text in TEXTS)
    assert overlap(one, other) is common


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("Search.*", "Search.Web", True),
        ("Search.*", "Serch.*", False),
        ("Search.Web@1.*", "Search.*", True),  # without a version: any
        ("Search.Web@1.*", "*@2.?.0", False),
        ("Search.Web@1.*", "*@1.?.0", True),
        ("*", "?", True),
    ],
)
def test_patterns_of_tools_meet_with_and_without_versions(one: str, other: str, meets: bool) -> None:
    assert overlap(one, other) is meets
    assert overlap(other, one) is meets


def test_patterns_made_to_be_slow_are_not() -> None:
    assert not overlap("*a" * 128, "*b" * 127 + "*c")
