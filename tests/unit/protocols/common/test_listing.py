"""Whole lists read as text: what keeps the bounds is a definition, and what does not is left out alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.core.model import Rejected, ToolDefinition
from gateway.protocols.common import entries as lists
from gateway.protocols.common import listing as listings
from gateway.protocols.common.definitions import UnreadableTool
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc.listing import read_list
from gateway.protocols.rap import toolset as callback_toolset
from gateway.protocols.rcrt import tools as rcrt_tools
from tests.unit.protocols.common.answers import offered

TOOL = {"id": "A.B@1.0.0", "description": "Does.", "input_schema": {}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}}}
TOOLSET_TOOL = {"name": "do", "description": "Does.", "inputSchema": {"type": "object"}}
MANIFEST = {"name": "Kit", "endpoint": "http://127.0.0.1/tools", "tools": [TOOLSET_TOOL]}


def read(text: bytes, **limits: Any) -> tuple[listings.Summary, list[ToolDefinition]]:
    return offered(read_list, text, **limits)


def tools(*entries: Any) -> bytes:
    return json.dumps({"tools": entries}).encode()


def named(name: str, **more: Any) -> dict[str, Any]:
    return TOOL | {"id": name} | more


def test_a_tool_that_is_too_long_is_left_out_alone_and_not_read() -> None:
    long = b'{"input_schema":{"enum":[%b]},"name":"x","id":"A.Long"}' % b",".join([b"[]"] * 20_000)
    summary, found = read(b'{"tools":[%b,%b,%b]}' % (encode(named("A.B")), long, encode(named("A.C"))))
    assert [tool.id for tool in found] == ["A.B@1.0.0", "A.C@1.0.0"]
    reason = f"its definition has {len(long)} bytes; 12000 are allowed"
    assert summary.rejected == (Rejected(id="A.Long", reason=reason),)


def test_a_tool_of_too_many_values_is_left_out_alone() -> None:
    many = named("A.Many", input_schema={"enum": [[]] * listings.MAX_TOOL_VALUES})
    summary, found = read(tools(many, TOOL), max_schema_bytes=1_000_000)
    assert [tool.id for tool in found] == ["A.B@1.0.0"]
    [rejected] = summary.rejected
    assert (rejected.id, rejected.reason[:14]) == ("A.Many@1.0.0", "It holds some ")


def test_the_tools_that_fill_the_room_for_all_leave_out_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MAX_VALUES", 10_000)
    entries = [named(f"A.T{number}", input_schema={"enum": [[]] * 500}) for number in range(20)]
    summary, found = read(tools(*entries), max_schema_bytes=10_000, max_tools=100)
    assert len(found) + len(summary.rejected) == 20
    assert 8 <= len(found) < 10_000 / 500 / 2 + 1  # a comma and a bracket for each
    assert all("which is the most" in rejected.reason for rejected in summary.rejected)


def test_a_list_is_cut_off_behind_as_many_tools_as_may_be_published() -> None:
    summary, found = read(tools(*(named(f"A.T{number}") for number in range(20))))
    assert [tool.tool for tool in found] == [f"A.T{number}" for number in range(10)]
    assert summary.rejected == (
        Rejected(id="crm", reason="It lists more than 10 tools; only the first 10 are looked at."),
    )


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 8, 100])
def test_a_long_list_is_split_in_several_goes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "TOOLS_PER_SPLIT", 2)
    text = b' { "items" : [ {"id":"A.T0"} ,{"id":"A.T1"}\n, 2,[3] ,"4", {"id":"A.T5"},{"a": "],"} ] } '
    _, entries = lists.open_list(text, most, 100)
    expected = [{"id": "A.T0"}, {"id": "A.T1"}, 2, [3], "4", {"id": "A.T5"}, {"a": "],"}]
    assert list(entries) == expected[:most]


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (b"[]", "lc"),
        (b'{"items":[]}', "oxp or oxp-env"),
        (b'{"$schema":"urn:oxp:1.0","items":[]}', "oxp-env"),
        (b'{"$schema":"urn:oxp:1.0","tools":[]}', "oxp-env"),
        (b'{"$schema":"otc://1.0","items":[]}', "oxp-env"),
        (b'{"tools":null,"items":[]}', "oxp or oxp-env"),
        (b'{"$schema":"%b","tools":[{"input_schema":{}}]}' % rest.RFC_SCHEMA.encode(), "rfc"),
        (b'{"tools":[7,{"id":"A.B"},{"toolkit":{"name":"A"}}]}', "rfc"),
        (b'{"tools":[{"input":{"parameters":{}}}]}', "rfc"),
        (b'{"tools":[{"id":"A.B","x":1e999},{"toolkit":{"name":"A"}}]}', "rfc"),
        (b'{"tools":[{"id":"A.B","x":"\\ud800"},{"toolkit":{"name":"A"}}]}', "rfc"),
        (b'{"$schema":"%b","tools":[]}' % rest.OTC_URL.encode(), "otc"),
        (b'{"$schema":"mine","tools":[]}', "otc"),
        (b'{"tools":[{"input_schema":{"parameters":{}}}],"items":null}', "otc"),
    ],
)
def test_the_dialect_of_a_tool_server_is_read_off_its_list(text: bytes, dialect: str) -> None:
    assert read(text)[0].note == dialect
    assert read(text, has_version=True)[0].note == "oxp"


@pytest.mark.parametrize("text", [b"", b"7", b"{}", b'{"tools":{}}', b'{"tools":[1,]}', b"[[" * 100_000, b"<html>"])
def test_what_is_no_list_is_a_failure(text: bytes) -> None:
    summary, found = read(text)
    assert summary.failure
    assert not found


def test_only_short_names_of_a_tool_that_is_too_long_are_shown() -> None:
    for names in (b'"id":7', b'"id":"%b"' % (b"x" * 5000), b'"id":"\\ud800"', b'"x":{"id":"A.B"}'):
        (entry,) = lists.open_list(b'[{"a":"%b",%b}]' % (b"y" * 200, names), 1, 100)[1]
        assert isinstance(entry, UnreadableTool)
        assert entry.get("id") is None


LISTED = {"id": "A.B@1.0.0", "name": "A_B", "description": "", "version": "1.0.0", "input_schema": {}}


def test_a_catalogue_is_read_tool_by_tool() -> None:
    wrong = [{"id": "A.C", "input_schema": 7}, "x", {"name": "s", "input": 7}, {"id": None, "name": "seek"}]
    summary, found = read(tools(LISTED, {"name": "find"}, *wrong))
    assert [tool.id for tool in found] == ["A.B@1.0.0", "Crm.find@1.0.0"]
    assert [(bad.id, bad.reason) for bad in summary.rejected] == [
        ("A.C", "the input schema is not an object"),
        ("number 4 of the list", "a listed tool is not an object"),
        ("s", "the input schema is not an object"),
        ("seek", "a listed tool has no id"),
    ]


def test_tools_that_only_an_odd_version_tells_apart_are_left_out() -> None:
    """Ours: asked for by the bare id, the tool server would run its latest for both."""
    entries = [LISTED | {"id": "A.B", "version": version} for version in ("1.2", "1.3")] + [LISTED | {"id": "A.C"}]
    summary, found = read(tools(*entries))
    assert [tool.id for tool in found] == ["A.C@1.0.0"]
    assert [bad.id for bad in summary.rejected] == ["A.B@1.2.0", "A.B@1.3.0"]


@pytest.mark.parametrize("beside", [{"id": "A.B@2.0.0"}, {"version": "2.0.0", "input_schema": 7}], ids=str)
@pytest.mark.parametrize("odd", [{"version": "1.2"}, {"version": None}, {"version": 1}], ids=str)
def test_a_tool_that_is_asked_for_by_its_bare_id_is_left_out_beside_another_of_that_id(
    odd: dict[str, Any], beside: dict[str, Any]
) -> None:
    """Ours: the tool server would run its latest, also where that is a version which is of no use to us."""
    bare = LISTED | {"id": "A.B"}
    entries = [bare | odd, bare | beside, LISTED | {"id": "A.C", "version": "1.2"}]
    summary, found = read(tools(*entries))
    assert all("@" in tool.remote_id for tool in found if tool.tool == "A.B")
    assert not any(tool.tool == "A.B" and tool.version.startswith("1.") for tool in found)
    assert "A.C" in [tool.remote_id for tool in found]
    assert any("no version tells them apart" in bad.reason for bad in summary.rejected)


def test_a_short_version_is_asked_for_as_it_is() -> None:
    """Spec: `@3` is 3.0.0 to every server (OXP 1.0, Tool Version Resolution)."""
    entries = [LISTED | {"id": "A.B", "version": version} for version in ("3", "4")]
    _, found = read(tools(*entries))
    assert [(tool.id, tool.remote_id) for tool in found] == [("A.B@3.0.0", "A.B@3"), ("A.B@4.0.0", "A.B@4")]


@pytest.mark.parametrize("version", [1.5, ["1.0.0"]], ids=str)
def test_a_version_that_is_no_text_is_adapted(version: Any) -> None:
    summary, found = read(tools(LISTED | {"id": "A.B", "version": version}))
    assert [(tool.id, tool.remote_id) for tool in found] == [("A.B@1.0.0", "A.B")]
    assert summary.adapted == (("A.B@1.0.0", "Its version is not a string; 1.0.0 stands in."),)


def read_toolset(document: Any) -> tuple[listings.Summary, list[ToolDefinition]]:
    return offered(callback_toolset.read_toolset, document)


def test_a_tool_of_a_toolset_that_is_too_large_is_left_out_alone() -> None:
    long = TOOLSET_TOOL | {"name": "long", "inputSchema": {"enum": [[]] * 10_000}}
    large = TOOLSET_TOOL | {"name": "large", "inputSchema": {"type": "object", "title": "x" * 2000}}
    summary, found = read_toolset(MANIFEST | {"tools": [long, TOOLSET_TOOL, large]})
    assert [tool.remote_id for tool in found] == ["do"]
    assert [rejected.id for rejected in summary.rejected] == ["long", "Kit.large@1.0.0"]
    assert summary.note == MANIFEST["endpoint"]


def test_a_toolset_with_a_flaw_is_invalid_whole_and_what_is_no_toolset_fails() -> None:
    flawed, found = read_toolset(MANIFEST | {"tools": [TOOLSET_TOOL, TOOLSET_TOOL | {"inputSchema": 7}]})
    assert (flawed.note, found, [rejected.id for rejected in flawed.rejected]) == ("", [], ["crm"])
    assert "inputSchema" in flawed.rejected[0].reason
    for document in (
        b"",
        b"{",
        MANIFEST | {"description": "x" * 100_000},
        b'{"tools":[' + b"[" * 70 + b"]" * 70 + b"]}",
    ):
        assert read_toolset(document)[0].failure
    invalid: Any
    for invalid in (7, {}, MANIFEST | {"tools": {}}, MANIFEST | {"endpoint": None}):
        summary, found = read_toolset(invalid)
        assert (summary.failure, len(summary.rejected), found) == ("", 1, [])
    many = [TOOLSET_TOOL | {"name": f"t{number}"} for number in range(11)]
    summary, found = read_toolset(MANIFEST | {"tools": many})
    assert (len(found), [rejected.id for rejected in summary.rejected]) == (10, ["crm"])


def test_a_catalogue_of_crumbs_is_read_tool_by_tool() -> None:
    odd = [{"version": "1.0.0"}, {"name": "odd", "inputSchema": 7}, "x"]
    context = {"tools": [{"name": "echo", "inputSchema": SCHEMA}, {"name": "large", "description": "x" * 2000}, *odd]}
    crumb = {"id": "c1", "tags": [], "schema_name": "tool.catalog.v1", "version": 1, "context": context}
    summary, found = offered(rcrt_tools.read_catalog, [crumb])
    assert [(tool.remote_id, tool.input_schema) for tool in found] == [("echo", SCHEMA)]
    assert (summary.note, [bad.id for bad in summary.rejected]) == ("c1", ["Crm.large@1.0.0", "?", "odd", "?"])
    none: Any
    for none in (None, {}, {"tools": 7}):
        assert offered(rcrt_tools.read_catalog, [crumb | {"context": none}]) == (listings.Summary("c1"), [])
    for text in (b"", b"{}"):
        assert offered(rcrt_tools.read_catalog, text)[0].failure
