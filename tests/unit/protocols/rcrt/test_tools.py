"""RCRT: tools as breadcrumbs, in the present form and the older ones, and the catalogue of the older edition."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.tool_names import DefinitionError
from gateway.protocols.rcrt.breadcrumbs import Breadcrumb
from gateway.protocols.rcrt.tools import is_callable, read_tool, tool_name

SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}}}


def read(context: Any, **record: Any) -> Any:
    return read_tool({"context": context, **record}, "json-transform", "Crumbs")


def test_a_tool_is_read_from_its_record() -> None:
    context = {
        "name": "json-transform",
        "input_schema": SCHEMA,
        "output_schema": {"type": "object"},
        "examples": [{"input": {}}],
    }
    tool, warnings = read(context, description="Transforms.", semantic_version="2.1.0")
    assert (tool.id, tool.name, tool.remote_id) == (
        "Crumbs.json_transform@2.1.0",
        "Crumbs_json_transform",
        "json-transform",
    )
    assert (tool.description, tool.input_schema, tool.output_schema) == ("Transforms.", SCHEMA, {"type": "object"})
    assert (tool.examples, warnings) == ([{"input": {}}], ())


OLDER: list[dict[str, Any]] = [
    {"inputSchema": SCHEMA, "outputSchema": SCHEMA},
    {"definition": {"inputSchema": SCHEMA, "outputSchema": SCHEMA}},
    {"parameters": SCHEMA, "output_schema": SCHEMA},
]


@pytest.mark.parametrize("context", OLDER, ids=["camel", "definition", "parameters"])
def test_older_spellings_of_the_schemas_are_understood(context: dict[str, Any]) -> None:
    tool, _ = read({**context, "description": "Older.", "version": "1.2"})
    assert (tool.input_schema, tool.output_schema) == (SCHEMA, SCHEMA)
    assert (tool.description, tool.version) == ("Older.", "1.2.0")


@pytest.mark.parametrize("context", [{}, None, "code", {"definition": 7, "examples": {}}], ids=repr)
def test_a_tool_that_says_nothing_takes_and_returns_anything(context: Any) -> None:
    tool, _ = read(context, description=7, semantic_version=None)
    assert (tool.version, tool.description, tool.input_schema, tool.output_schema) == ("1.0.0", "", {}, {})
    assert tool.examples is None


def test_an_odd_version_is_replaced_with_a_warning() -> None:
    tool, warnings = read({}, semantic_version="beta")
    assert tool.version == "1.0.0"
    assert len(warnings) == 1


@pytest.mark.parametrize(("name", "word"), [("Calc.add", "Calc_add"), ("calc@9", "calc_9"), ("calc/ä", "calc__")])
def test_no_part_of_a_name_is_a_toolkit_or_a_version(name: str, word: str) -> None:
    tool, _ = read_tool({"context": {}, "semantic_version": "2.1.0"}, name, "Crumbs")
    assert (tool.id, tool.remote_id) == (f"Crumbs.{word}@2.1.0", name)


@pytest.mark.parametrize("context", [{"input_schema": 7}, {"outputSchema": []}], ids=repr)
def test_a_schema_that_is_no_object_is_refused(context: Any) -> None:
    with pytest.raises(DefinitionError, match="schema is not an object"):
        read(context)


def test_a_name_of_which_no_id_can_be_made_is_refused() -> None:
    with pytest.raises(DefinitionError):
        read_tool({"context": {}}, "x" * 300, "Crumbs")


NAMES = [
    (("tool", "tool:echo"), {"name": "echo"}, "echo"),
    (("tool:echo", "tool:other"), {"name": "other"}, "other"),
    (("tool:echo",), {}, "echo"),
    (("tool:echo",), {"name": 7}, "echo"),
    (("tool:echo",), None, "echo"),
]


@pytest.mark.parametrize(("tags", "context", "name"), NAMES)
def test_a_tool_is_named_by_its_context_and_failing_that_by_its_tag(
    tags: tuple[str, ...], context: Any, name: str
) -> None:
    assert tool_name(Breadcrumb(id="b7e0", tags=tags, context=context)) == name


@pytest.mark.parametrize("tags", [(), ("tool:openrouter-models-sync",)])
def test_a_tool_its_tags_do_not_name_cannot_be_reached(tags: tuple[str, ...]) -> None:
    """Gap of the stock tools: one is tagged otherwise than it is called."""
    with pytest.raises(DefinitionError):
        tool_name(Breadcrumb(id="b7e0", tags=tags, context={"name": "openrouter_models_sync"} if tags else {}))


def test_a_tool_is_callable_in_its_workspace_and_once_approved() -> None:
    for tags, approved, there in ((("w", "approved"), True, True), (("w",), False, True), ((), False, False)):
        crumb = Breadcrumb(id="b7e0", tags=tags)
        assert is_callable(crumb, "w", needs_approval=True) is approved
        assert is_callable(crumb, "w", needs_approval=False) is there
