"""The tools of the OTC demonstration server: sums, doorbells, an echo and a clock."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from gateway.demo.toolbox import Context, Json, JsonObject, Run, Tool, ToolError, object_schema

DOORBELLS = ("doorbell42", "doorbell84")
NUMBER = {"type": "number"}
MAX_SLEEP_S = 60


async def add(arguments: JsonObject, _context: Context) -> Json:
    return _calculated(lambda: sum([arguments["a"], arguments["b"], *arguments.get("terms", ())]))


async def divide(arguments: JsonObject, _context: Context) -> Json:
    if arguments["b"] == 0:
        raise ToolError("Cannot divide by zero", can_retry=True, additional_prompt_content="b must not be 0")
    return _calculated(lambda: arguments["a"] / arguments["b"])


def _calculated(calculate: Callable[[], float]) -> float:
    """Raises ToolError when the result is beyond the numbers JSON parsers agree on."""
    try:
        number = calculate()
    except OverflowError:
        number = float("inf")
    if not abs(number) <= sys.float_info.max:  # false for NaN too
        raise ToolError("The result is out of range")
    return number


async def ring(arguments: JsonObject, _context: Context) -> None:
    """Fails as the Tool Execution Error example of Call Tool does."""
    doorbell_id = arguments["doorbell_id"]
    if doorbell_id not in DOORBELLS:
        raise ToolError(
            "Doorbell ID not found",
            developer_message=f"The doorbell with ID '{doorbell_id}' does not exist.",
            can_retry=True,
            additional_prompt_content=f"ids: {','.join(DOORBELLS)}",
            retry_after_ms=500,
        )


async def echo(arguments: JsonObject, _context: Context) -> Json:
    return arguments["value"]


def sleeper(stopping: asyncio.Event) -> Run:
    """The clock sleeps on when its caller is gone, but not when the server stops."""

    async def sleep(arguments: JsonObject, _context: Context) -> Json:
        try:
            await asyncio.wait_for(stopping.wait(), arguments["seconds"])
        except TimeoutError:
            return {"slept_s": arguments["seconds"]}
        raise ToolError("The server stopped before the time was up", can_retry=True)

    return sleep


def tools(stopping: asyncio.Event) -> list[Tool]:
    """Everything the server offers; of `Calculator.Add` there are two versions."""
    two_numbers = {"a": NUMBER, "b": NUMBER}
    terms = {"type": "array", "items": NUMBER, "maxItems": 100}
    return [
        Tool(
            id="Calculator.Add",
            version=(1, 0, 0),
            description="Adds two numbers.",
            input_schema=object_schema(two_numbers, "a", "b"),
            output_schema=NUMBER,
            run=add,
        ),
        Tool(
            id="Calculator.Add",
            version=(1, 1, 0),
            description="Adds two numbers and any further terms.",
            input_schema=object_schema({**two_numbers, "terms": terms}, "a", "b"),
            output_schema=NUMBER,
            run=add,
        ),
        Tool(
            id="Calculator.Divide",
            version=(1, 0, 0),
            description="Divides a by b.",
            input_schema=object_schema(two_numbers, "a", "b"),
            output_schema=NUMBER,
            run=divide,
        ),
        Tool(
            id="Doorbell.Ring",
            version=(0, 1, 0),
            description="Rings a doorbell.",
            input_schema=object_schema({"doorbell_id": {"type": "string", "maxLength": 100}}, "doorbell_id"),
            output_schema=None,
            run=ring,
        ),
        Tool(
            id="Text.Echo",
            version=(1, 0, 0),
            description="Returns the value it is given.",
            input_schema=object_schema({"value": {}}, "value"),
            output_schema={},
            run=echo,
        ),
        Tool(
            id="Clock.Sleep",
            version=(1, 0, 0),
            description="Waits before it answers.",
            input_schema=object_schema(
                {"seconds": {"type": "number", "minimum": 0, "maximum": MAX_SLEEP_S}}, "seconds"
            ),
            output_schema=object_schema({"slept_s": NUMBER}, "slept_s"),
            run=sleeper(stopping),
        ),
    ]
