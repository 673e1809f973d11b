"""Tool definitions in every form they are listed in."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common import definitions
from gateway.protocols.common.entries import open_list
from gateway.protocols.otc import surface as otc_surface
from tests.wire import DIALECTS, DefinitionExample, canonical, definition_examples

OWN = definition_examples(*DIALECTS)
FOREIGN = definition_examples("foreign")
EVERYTHING = OWN["otc/everything"].definition


@pytest.mark.parametrize("example", OWN.values(), ids=OWN.keys())
def test_a_definition_is_listed_as_its_dialect_says(example: DefinitionExample) -> None:
    encoded = otc_surface.DIALECTS[example.dialect].encode_definition(example.definition)
    assert canonical(jsontext.decode(encoded)) == canonical(example.listed)


@pytest.mark.parametrize("example", [*OWN.values(), *FOREIGN.values()], ids=[*OWN, *FOREIGN])
def test_a_listed_tool_is_read_whole(example: DefinitionExample) -> None:
    definition, warnings = definitions.read_definition(example.listed, "kit")
    assert definition == example.definition
    assert (warnings == ()) or example.dialect == "foreign"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_only_the_rfc_can_say_survives_every_dialect(dialect: str) -> None:
    listed = jsontext.decode(otc_surface.DIALECTS[dialect].encode_definition(EVERYTHING))
    assert definitions.read_definition(listed, "kit") == (EVERYTHING, ())


def test_the_rfc_spells_out_the_output_modes_that_others_leave_open() -> None:
    listed = jsontext.decode(otc_surface.RFC.encode_definition(replace(EVERYTHING, output_modes=None)))
    assert listed["output"]["available_modes"] == ["value", "error"]


def test_a_listed_tool_leaves_the_parsed_answer_as_it_was() -> None:
    example = FOREIGN["foreign/rfc-required-beside-parameters"]
    before = canonical(example.listed)
    definitions.read_definition(example.listed, "kit")
    assert canonical(example.listed) == before


USABLE = {"id": "A.B@1.0.0", "input_schema": {}}
NEEDS: list[Any] = [[], {"authorization": "x"}, {"authorization": [{}]}, {"secrets": ["x"]}, {"secrets": [{"id": ""}]}]
UNUSABLE: list[Any] = [
    *(None, [], "A.B", {}, {"id": 7}, {"id": None, "name": "b"}, {"id": "@1.0.0"}, {"id": "A." + "b" * 300}),
    *(USABLE | {member: 7} for member in ("description", "input_schema", "output_schema")),
    *(USABLE | {"requirements": requirements} for requirements in NEEDS),
]


@pytest.mark.parametrize("listed", UNUSABLE, ids=lambda listed: repr(listed)[:80])
def test_a_tool_that_cannot_be_published_is_refused_with_a_reason(listed: Any) -> None:
    with pytest.raises(DefinitionError, match=r"\w"):
        definitions.read_definition(listed, "kit")


@pytest.mark.parametrize("listed", [USABLE | {"version": 2}, {"id": "A.B"}, {"id": "A.B", "version": None}], ids=repr)
def test_a_version_that_does_not_count_or_is_not_there_is_nothing_to_warn_of(listed: Any) -> None:
    definition, warnings = definitions.read_definition(listed, "kit")
    assert (definition.id, warnings) == ("A.B@1.0.0", ())


def test_members_that_are_null_are_as_if_they_were_not_there() -> None:
    """Servers that know several forms write out the members of all."""
    spoken = {"id": "A.B", "toolkit": {"name": "A", "version": "3.1.0"}, "input": {"parameters": ARGUMENTS}}
    spoken |= {"output": {"available_modes": ["null", "error"], "description": "Nothing."}}
    silent = dict.fromkeys(("version", "input_schema", "output_schema", "requirements", "description"))
    assert definitions.read_definition(spoken | silent, "kit") == definitions.read_definition(spoken, "kit")
    assert definitions.read_definition(spoken | silent, "kit")[0].id == "A.B@3.1.0"


ARGUMENTS = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_the_arguments_are_found_in_their_wrapper_whatever_stands_beside_them() -> None:
    around = {"parameters": ARGUMENTS, "type": "object", "title": "Arguments", "description": "What it takes."}
    assert definitions.read_definition(USABLE | {"input_schema": around}, "kit")[0].input_schema == ARGUMENTS


def test_what_the_arguments_refer_to_comes_along_from_their_wrapper() -> None:
    arguments = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    around = {"parameters": arguments, "$defs": {"A": {"type": "integer"}}}
    read, _ = definitions.read_definition(USABLE | {"input_schema": around}, "kit")
    assert read.input_schema == arguments | {"$defs": {"A": {"type": "integer"}}}
    assert around == {"parameters": arguments, "$defs": {"A": {"type": "integer"}}}


CATALOGUES = {
    "rfc": '{"$schema":"X","tools":[1,2]}',
    "otc": '{"$schema":"X","tools":[1,2]}',
    "oxp": '{"items":[1,2]}',
    "oxp-env": '{"$schema":"X","items":[1,2]}',
    "lc": "[1,2]",
}


@pytest.mark.parametrize("name", DIALECTS)
def test_encoded_tools_are_joined_as_the_dialect_lists_them(name: str) -> None:
    dialect = otc_surface.DIALECTS[name]
    assert type(dialect)("X").join([b"1", b"2"]).body.decode() == CATALOGUES[name]
    assert list(open_list(dialect.join([]).body, 1, 1)[1]) == []


def test_only_flat_oxp_answers_with_its_version_in_a_header() -> None:
    headers = {name: type(otc_surface.DIALECTS[name])("1.0.0").headers for name in DIALECTS}
    assert headers == dict.fromkeys(DIALECTS, ()) | {"oxp": ((b"oxp-version", b"1.0.0"),)}
