"""A tool server that speaks the draft RFC to the letter, with everything only the RFC can say in its list."""

from __future__ import annotations

from typing import Any

from tests.support.toolserver import Exchange

SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
TOOLKIT = {"name": "Lab", "description": "Instruments of a laboratory.", "version": "2.3.4"}
TOKEN, SECRET = "lab-door", "LAB_KEY"
FAILURE = {
    "message": "The sample is contaminated.",
    "developer_message": "Spectrum 7 has a foreign line.",
    "can_retry": True,
    "additional_prompt_content": "Ask for another sample.",
    "retry_after_ms": 1500,
    "spectrum": {"lines": [656.28, 486.13], "who": None},  # no specification has it
}


def _definition(tool: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"Lab.{tool}@2.3.4",
        "name": f"Lab_{tool}",
        "description": f"{tool} in the laboratory.",
        "toolkit": TOOLKIT,
        "input": {"parameters": {"type": "object"}},
        "output": {"available_modes": ["value", "error"], "value": {}},
    } | more


MEASURE = _definition(
    "Measure",
    input={
        "parameters": {"type": "object", "properties": {"sample": {"type": "string"}}, "required": ["sample"]},
        "non_inferrable_parameters": ["sample"],
    },
    output={
        "available_modes": ["value", "error", "null"],
        "description": "What was measured, if anything.",
        "value": {"type": ["number", "null"]},
    },
    requirements={
        "authorization": [{"id": TOKEN, "oauth2": {"scopes": ["enter", "touch"]}}],
        "secrets": [{"id": SECRET}],
        "user_id": True,
    },
    examples=[{"input": {"sample": "A-1"}, "output": 4.25}],
)
DEFINITIONS = [MEASURE, _definition("Fail"), _definition("Mumble")]


async def _finish(exchange: Exchange, success: bool, output: Any) -> None:
    call_id = exchange.request.call["call_id"]
    await exchange.reply({"$schema": SCHEMA, "call_id": call_id, "success": success, "duration": 2.5, "output": output})


async def _measure(exchange: Exchange) -> None:
    await _finish(exchange, True, {"value": 4.25})


async def _fail(exchange: Exchange) -> None:
    await _finish(exchange, False, {"error": FAILURE})


async def _mumble(exchange: Exchange) -> None:
    await exchange.reply(["not", "an", "answer"])


async def list_tools(exchange: Exchange) -> None:
    await exchange.reply({"$schema": SCHEMA, "tools": DEFINITIONS})


TOOLS = {"Lab.Measure": _measure, "Lab.Fail": _fail, "Lab.Mumble": _mumble}
