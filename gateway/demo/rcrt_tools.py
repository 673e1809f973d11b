"""The stock tools of the RCRT demonstration server, and the `tool.code.v1` breadcrumbs that describe them.

Behaves as the tools RCRT ships: nothing checks an input but the tool itself. Their code is here, not in the breadcrumb.
"""

from __future__ import annotations

import ast
import asyncio
import math
import operator
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.demo.toolbox import Json, JsonObject, ToolError

WORKSPACE = "workspace:tools"
TOOL_NAMES = ("echo", "random", "timer", "calculator", "json-transform", "workflow")
MAX_EXPRESSION_CHARACTERS = 300  # deep enough for people, too shallow for the parser to run out of stack
MAX_WAIT_S = 60
EXPRESSION = re.compile(rf"[0-9.eE+\-*/%() ]{{1,{MAX_EXPRESSION_CHARACTERS}}}")
SOURCE = "export async function execute(input, context) { return host.run(input, context); }"
OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: math.fmod,  # the sign of the dividend, as in JavaScript
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}

Run = Callable[[JsonObject], Awaitable[Json]]


@dataclass(frozen=True)
class StockTool:
    """One tool. `shipped` is false for those the real runner refuses until somebody approves them."""

    name: str
    description: str
    inputs: JsonObject
    required: tuple[str, ...]
    outputs: JsonObject
    timeout_ms: int
    run: Run
    shipped: bool = True

    def draft(self, *, approved: bool, edition: str) -> JsonObject:
        """The breadcrumb that offers the tool; the mark `approved` is of the newer edition."""
        marks = ["approved", "validated"] if approved and edition == "E" else []
        return {
            "schema_name": "tool.code.v1",
            "title": f"Tool: {self.name}",
            "description": self.description,
            "semantic_version": "2.1.0",
            "tags": ["tool", f"tool:{self.name}", WORKSPACE, *marks],
            "context": {
                "name": self.name,
                "code": {"language": "typescript", "source": SOURCE},
                "input_schema": {"type": "object", "properties": self.inputs, "required": list(self.required)},
                "output_schema": {"type": "object", "properties": self.outputs},
                "limits": {"timeout_ms": self.timeout_ms, "memory_mb": 64, "cpu_percent": 25},
                "permissions": {"net": False},
                "required_secrets": [],
                "examples": [],
            },
        }

    def catalogue_entry(self) -> JsonObject:
        """As the older edition lists it: no description, and always the same version."""
        return {
            "name": self.name,
            "category": "general",
            "version": "1.0.0",
            "inputSchema": {"type": "object", "properties": self.inputs, "required": list(self.required)},
            "outputSchema": {"type": "object", "properties": self.outputs},
            "examples": [],
            "capabilities": {"async": True, "timeout": self.timeout_ms, "retries": 0},
            "status": "active",
        }


async def echo(given: JsonObject) -> Json:
    message = given.get("message")
    if not isinstance(message, str) or not message:
        raise ToolError("message must be a non-empty string")
    return {"echo": message}


async def random_numbers(given: JsonObject) -> Json:
    low, high, count = (given.get(name, default) for name, default in (("min", 0), ("max", 100), ("count", 1)))
    if not all(_is_number(value) for value in (low, high, count)) or low > high:
        raise ToolError("min, max and count must be numbers, and min not above max")
    if not 1 <= count <= 10:
        raise ToolError("count must be between 1 and 10")
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        raise ToolError("there is no whole number between min and max")
    return {"numbers": [random.randint(first, last) for _ in range(int(count))]}  # noqa: S311 - no secret


async def timer(given: JsonObject) -> Json:
    seconds: Json = given.get("seconds")
    if not _is_number(seconds) or not 0 <= seconds <= MAX_WAIT_S:
        raise ToolError(f"seconds must be a number between 0 and {MAX_WAIT_S}")
    await asyncio.sleep(seconds)
    return {"waited": seconds, "message": f"Waited {seconds} seconds"}


async def calculator(given: JsonObject) -> Json:
    expression = given.get("expression")
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression):
        raise ToolError(f"expression must be sums of numbers, in at most {MAX_EXPRESSION_CHARACTERS} characters")
    try:
        number = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError):
        raise ToolError("expression cannot be calculated") from None
    if not math.isfinite(number):
        raise ToolError("the result is not a finite number")
    result = int(number) if number.is_integer() and abs(number) < 2**53 else number
    return {"result": result, "expression": expression, "formatted": f"{expression} = {result}"}


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            return float(OPERATORS[type(sign)](_value(left), _value(right)))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in OPERATORS:
            return float(OPERATORS[type(sign)](_value(operand)))
        case _:
            raise ValueError


async def json_transform(given: JsonObject) -> Json:
    data, operation = given.get("data"), given.get("operation")
    match operation:
        case "extract":
            return {"result": resolve(data, str(given.get("path", ""))), "operation": operation}
        case "map" if isinstance(mapping := given.get("mapping"), dict):
            result = [{name: resolve(item, str(path)) for name, path in mapping.items()} for item in _items(data)]
        case "filter" if isinstance(condition := given.get("condition"), dict):
            result = [item for item in _items(data) if all(resolve(item, k) == v for k, v in condition.items())]
        case "sort" if isinstance(key := given.get("sort_by"), str):
            try:
                result = sorted(_items(data), key=lambda item: resolve(item, key))
            except TypeError:
                raise ToolError("the values of sort_by cannot be compared") from None
        case _:
            raise ToolError("operation must be extract, map, filter or sort, with what it needs")
    return {"result": result, "operation": operation}


def resolve(value: Json, path: str) -> Json:
    """Follows `field.sub[0]`. Raises ToolError when it leads nowhere."""
    for name, index in re.findall(r"([^.\[\]]+)|\[([0-9]{1,6})\]", path):
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError):
            raise ToolError(f"there is nothing at {path[:100]}") from None
    return value


def _items(data: Json) -> list[Json]:
    if not isinstance(data, list):
        raise ToolError("data must be an array")
    return data


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _number(description: str) -> JsonObject:
    return {"type": "number", "description": description}


def _array(description: str) -> JsonObject:
    return {"type": "array", "description": description}


def _object(description: str) -> JsonObject:
    return {"type": "object", "description": description}


def stock_tools(workflow: Run) -> list[StockTool]:
    """All of them; what runs a workflow is given, since it needs the runner."""
    return [
        StockTool(
            name="echo",
            description="Echoes a message.",
            inputs={"message": _text("What to repeat")},
            required=("message",),
            outputs={"echo": _text("The message")},
            timeout_ms=1000,
            run=echo,
        ),
        StockTool(
            name="random",
            description="Generates random whole numbers.",
            inputs={
                "min": _number("The lowest, 0 if left out"),
                "max": _number("The highest, 100 if left out"),
                "count": _number("How many, 1 to 10"),
            },
            required=(),
            outputs={"numbers": _array("Whole numbers")},
            timeout_ms=1000,
            run=random_numbers,
        ),
        StockTool(
            name="timer",
            description="Waits.",
            inputs={"seconds": _number(f"0 to {MAX_WAIT_S}")},
            required=("seconds",),
            outputs={"waited": _number("Seconds"), "message": _text("What happened")},
            timeout_ms=65_000,
            run=timer,
        ),
        StockTool(
            name="calculator",
            description="Does sums.",
            inputs={"expression": _text("Such as 25 * 4")},
            required=("expression",),
            outputs={
                "result": _number("The result"),
                "expression": _text("As given"),
                "formatted": _text("The expression and its result"),
            },
            timeout_ms=5000,
            run=calculator,
            shipped=False,
        ),
        StockTool(
            name="json-transform",
            description="Transforms JSON: extract, map, filter or sort.",
            inputs={
                "data": {"description": "Any JSON"},
                "operation": _text("extract, map, filter or sort"),
                "path": _text("For extract: a path such as items[0].name"),
                "mapping": _object("For map: new names, each with the path of its value"),
                "condition": _object("For filter: paths, each with the value it must have"),
                "sort_by": _text("For sort: a path"),
            },
            required=("data", "operation"),
            outputs={"result": {"description": "Any JSON"}, "operation": _text("As given")},
            timeout_ms=5000,
            run=json_transform,
            shipped=False,
        ),
        StockTool(
            name="workflow",
            description="Runs tools in steps.",
            inputs={
                "steps": _array("Steps of id, tool, input and dependencies"),
                "returnStep": _text("The step whose output to return"),
                "continueOnError": {"type": "boolean", "description": "Whether to go on after a failure"},
            },
            required=("steps",),
            outputs={
                "results": _object("Outputs by step"),
                "executionOrder": _array("Steps as they ended"),
                "errors": _object("Failures by step"),
            },
            timeout_ms=300_000,
            run=workflow,
            shipped=False,
        ),
    ]
