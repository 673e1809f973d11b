"""A catalogue as the tool parameters of model interfaces."""

from __future__ import annotations

from typing import Any

from gateway.client import Tool, for_anthropic, for_gemini, for_openai, newest_by_name

INPUT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "number"}}}
OLD = Tool(id="Calculator.Add@1.9.0", name="Calculator_Add", version="1.9.0", description="Adds.")
NEW = Tool(id="Calculator.Add@1.10.0", name="Calculator_Add", version="1.10.0", description="Adds.", input_schema=INPUT)
PLAIN = Tool(id="Clock.Now@1.0.0", name="Clock_Now", version="1.0.0")
EMPTY = {"type": "object", "properties": {}}


def test_a_name_stands_for_the_newest_version() -> None:
    assert (
        newest_by_name([NEW, PLAIN, OLD])
        == newest_by_name([OLD, NEW, PLAIN])
        == {
            "Calculator_Add": NEW,
            "Clock_Now": PLAIN,
        }
    )


def test_tools_have_the_form_of_each_interface() -> None:
    tools = [OLD, NEW, PLAIN]
    assert for_openai(tools) == [
        {"type": "function", "function": {"name": "Calculator_Add", "description": "Adds.", "parameters": INPUT}},
        {"type": "function", "function": {"name": "Clock_Now", "description": "", "parameters": EMPTY}},
    ]
    assert for_anthropic(tools)[0] == {"name": "Calculator_Add", "description": "Adds.", "input_schema": INPUT}
    assert for_gemini(tools) == [
        {
            "functionDeclarations": [
                {"name": "Calculator_Add", "description": "Adds.", "parametersJsonSchema": INPUT},
                {"name": "Clock_Now", "description": "", "parametersJsonSchema": EMPTY},
            ]
        }
    ]
