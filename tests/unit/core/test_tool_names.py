"""Names of tools: what tool servers send and what callers see."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.tool_names import DefinitionError, published_name, tool_and_version, version_key

IDS = [  # id, version field, tool, version
    ("Calculator.Add@1.2.3", None, "Calculator.Add", "1.2.3"),
    ("Calculator.Add", "1.2.3", "Calculator.Add", "1.2.3"),
    ("Calculator.Add@2.0.0", "1.2.3", "Calculator.Add", "2.0.0"),  # the id wins
    ("Calculator.Add@", "1.2.3", "Calculator.Add", "1.2.3"),  # it says nothing
    ("Calculator.Add", None, "Calculator.Add", "1.0.0"),
    ("Calculator.Add", "", "Calculator.Add", "1.0.0"),
    ("Calculator.Add@1", None, "Calculator.Add", "1.0.0"),
    ("Calculator.Add@1.2", None, "Calculator.Add", "1.2.0"),
    ("Calculator.Add@01.002.0", None, "Calculator.Add", "1.2.0"),
    ("Calculator.Add@0", None, "Calculator.Add", "0.0.0"),
    ("Calculator.Add@99999999999999999999.0.0", None, "Calculator.Add", "99999999999999999999.0.0"),
    ("add", None, "Crm.add", "1.0.0"),  # the default toolkit
    ("add-two numbers", None, "Crm.add_two_numbers", "1.0.0"),
    ("my-kit.add", None, "my_kit.add", "1.0.0"),
    ("a.b.c.d", None, "a.b_c_d", "1.0.0"),
    ("größe", None, "Crm.gr__e", "1.0.0"),
]


@pytest.mark.parametrize(("wire_id", "field", "tool", "version"), IDS)
def test_ids_become_toolkit_tool_and_version(wire_id: str, field: str | None, tool: str, version: str) -> None:
    assert tool_and_version(wire_id, field, "Crm") == (tool, version, ())


@pytest.mark.parametrize(
    "version", ["v1", "1.2.3.4", "1.0.0-rc1", "1.0.0+b", "latest", "\u0661", "1.2.3\n", "-1", "1..2", " "]
)
def test_a_malformed_version_becomes_the_first_one_with_a_warning(version: str) -> None:
    named = tool_and_version("A.B", version, "Crm")
    assert named.version == "1.0.0"
    assert len(named.warnings) == 1
    assert "x.y.z" in named.warnings[0]


def test_the_warning_about_a_huge_version_is_short() -> None:
    named = tool_and_version("A.B", "9" * 10_000, "Crm")
    assert named.version == "1.0.0"
    assert len(named.warnings[0]) < 150


def test_the_toolkit_of_ids_without_one_is_bent_into_shape_too() -> None:
    assert tool_and_version("add", None, "my-crm").tool == "my_crm.add"


@pytest.mark.parametrize("wire_id", ["", "@1.0.0", ".add", "Calculator.", ".", "a" * 300, f"a@{'9' * 250}"])
def test_an_id_that_names_no_tool_or_is_too_long_is_refused(wire_id: str) -> None:
    with pytest.raises(DefinitionError, match=r"^Its id .{,90}$"):
        tool_and_version(wire_id, None, "Crm")


@given(st.text(), st.none() | st.text())
def test_whatever_is_sent_the_names_made_of_it_are_well_formed(wire_id: str, field: str | None) -> None:
    try:
        named = tool_and_version(wire_id, field, "Crm")
    except DefinitionError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+", named.tool)
    assert re.fullmatch(r"\d+\.\d+\.\d+", named.version, re.ASCII)
    assert re.fullmatch(r"[A-Za-z0-9_]{1,64}", published_name(named.tool))
    assert version_key(named.version) >= (0, 0, 0)


def test_a_published_name_is_the_tool_with_an_underscore() -> None:
    assert published_name("Calculator.Add") == "Calculator_Add"


def test_a_name_of_64_characters_is_kept() -> None:
    assert published_name(f"Kit.{'a' * 60}") == f"Kit_{'a' * 60}"


def test_long_names_are_cut_and_stay_different() -> None:
    one, other = published_name(f"Kit.{'a' * 80}"), published_name(f"Kit.{'a' * 81}")
    assert re.fullmatch(r"Kit_a{51}_[0-9a-f]{8}", one)
    assert len(one) == 64
    assert one != other


def test_versions_compare_as_numbers() -> None:
    ascending = ["9.0.0", "9.9.0", "9.9.10", "9.10.0", "10.0.0", "99999999999999999999.0.0"]
    as_texts = sorted(ascending)
    assert sorted(as_texts, key=version_key) == ascending != as_texts
