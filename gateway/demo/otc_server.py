"""A demonstration tool server that speaks Open Tool Calling 1.0: `python -m gateway.demo.otc_server`.

Its tools are sums, doorbells, an echo and a clock.

Wire form: OTC 1.0, List Tools and Call Tool; every body carries `$schema`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Context, DemoTool, Json, JsonObject, NotRunError, Toolbox, ToolError, object_schema

CANONICAL = "otc://1.0"
SPELLINGS = (
    CANONICAL,
    "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
    "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
)

DOORBELLS = ("doorbell42", "doorbell84")
NUMBER = {"type": "number"}
MAX_SLEEP_S = 60


class OtcServer:
    """The two operations of OTC; each answer repeats the spelling of the version its request used."""

    def __init__(self, site: Site, toolbox: Toolbox) -> None:
        self._site = site
        self._toolbox = toolbox

    async def list_tools(self, request: Request) -> Response:
        schema = CANONICAL
        try:
            self._site.admit(request)
            # OTC puts `$schema` into the body of a GET, which may as well be absent.
            if body := await read_body(request):
                schema = negotiate(decode(body))
            definitions = [otc_definition(definition) for definition in self._toolbox.definitions()]
            return JSONResponse({"$schema": schema, "tools": definitions})
        except NotRunError as refused:
            return refusal(refused, schema)

    async def call_tool(self, request: Request) -> Response:
        schema = CANONICAL
        try:
            self._site.admit(request)
            document = decode(await read_body(request))
            schema = negotiate(document)
            result = await self._toolbox.call(document.get("request"))
            return JSONResponse({"$schema": schema, "result": result})
        except NotRunError as refused:
            return refusal(refused, schema)


def negotiate(document: Json) -> str:
    """Returns the version as the caller spells it; absent, it is the latest. Raises RefusedError."""
    if not isinstance(document, dict):
        raise NotRunError("The request must be a JSON object")
    schema = document.get("$schema", CANONICAL)
    if schema not in SPELLINGS:
        raise NotRunError(
            "This version of OTC is not supported", developer_message=f"Supported: {', '.join(SPELLINGS)}"
        )
    return str(schema)


def otc_definition(definition: JsonObject) -> JsonObject:
    return {**definition, "input_schema": {"parameters": definition["input_schema"]}}


def refusal(refused: NotRunError, schema: str) -> Response:
    return JSONResponse({"$schema": schema, **refused.body}, refused.status, headers=refused.headers)


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


async def sleep(arguments: JsonObject, _context: Context) -> Json:
    """Sleeps on when the caller is gone."""
    await asyncio.sleep(arguments["seconds"])
    return {"slept_s": arguments["seconds"]}


def tools() -> list[DemoTool]:
    """Everything the server offers; of `Calculator.Add` there are two versions."""
    numbers = {"a": NUMBER, "b": NUMBER}
    two = object_schema(numbers, "a", "b")
    more = object_schema({**numbers, "terms": {"type": "array", "items": NUMBER, "maxItems": 100}}, "a", "b")
    doorbell = object_schema({"doorbell_id": {"type": "string", "maxLength": 100}}, "doorbell_id")
    any_value = object_schema({"value": {}}, "value")
    seconds = object_schema({"seconds": {"type": "number", "minimum": 0, "maximum": MAX_SLEEP_S}}, "seconds")
    slept = object_schema({"slept_s": NUMBER}, "slept_s")
    return [
        DemoTool("Calculator.Add", (1, 0, 0), "Adds two numbers.", two, NUMBER, add),
        DemoTool("Calculator.Add", (1, 1, 0), "Adds two numbers and any further terms.", more, NUMBER, add),
        DemoTool("Calculator.Divide", (1, 0, 0), "Divides a by b.", two, NUMBER, divide),
        DemoTool("Doorbell.Ring", (0, 1, 0), "Rings a doorbell.", doorbell, None, ring),
        DemoTool("Text.Echo", (1, 0, 0), "Returns the value it is given.", any_value, {}, echo),
        DemoTool("Clock.Sleep", (1, 0, 0), "Waits before it answers.", seconds, slept, sleep),
    ]


def build(site: Site, _options: Options) -> Starlette:
    toolbox = Toolbox(tools())
    server = OtcServer(site, toolbox)
    routes = [
        Route("/tools", server.list_tools),
        Route("/tools/call", server.call_tool, methods=["POST"]),
        Route("/call", server.call_tool, methods=["POST"]),  # as the examples of the specification spell it
    ]
    return create_app(routes, lambda: toolbox.executions)


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks OTC 1.0.", default_port=9101)
