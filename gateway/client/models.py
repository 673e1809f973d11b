"""A catalogue as the tool parameters of common model interfaces. Their libraries are not needed for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.client.answers import Tool


def newest_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by the names that models call them by; of several versions the newest."""
    newest: dict[str, Tool] = {}
    for tool in tools:
        other = newest.get(tool.name)
        if other is None or _version(other) < _version(tool):
            newest[tool.name] = tool
    return newest


def _version(tool: Tool) -> tuple[int, ...]:
    return tuple(int(number) for number in tool.version.split(".") if number.isdecimal())


def for_openai(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The `tools` of OpenAI's Chat Completions, and of the many servers that speak the same."""
    return [{"type": "function", "function": _describe(tool, "parameters")} for tool in _newest(tools)]


def for_anthropic(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The `tools` of Anthropic's Messages."""
    return [_describe(tool, "input_schema") for tool in _newest(tools)]


def for_gemini(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The `tools` of Google's Gemini."""
    return [{"functionDeclarations": [_describe(tool, "parametersJsonSchema") for tool in _newest(tools)]}]


def _newest(tools: Iterable[Tool]) -> Iterable[Tool]:
    return newest_by_name(tools).values()


def _describe(tool: Tool, schema: str) -> dict[str, Any]:
    parameters: Mapping[str, Any] = tool.input_schema or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, schema: {"type": "object", **parameters}}
