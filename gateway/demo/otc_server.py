"""A demonstration tool server that speaks Open Tool Calling 1.0: `python -m gateway.demo.otc_server`.

Wire form: OTC 1.0, List Tools and Call Tool; every body carries `$schema`.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo import otc_tools
from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Json, JsonObject, RefusedError, Toolbox

CANONICAL = "otc://1.0"
SPELLINGS = (
    CANONICAL,
    "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
    "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
)


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
        except RefusedError as refused:
            return refusal(refused, schema)

    async def call_tool(self, request: Request) -> Response:
        schema = CANONICAL
        try:
            self._site.admit(request)
            document = decode(await read_body(request))
            schema = negotiate(document)
            result = await self._toolbox.call(document.get("request"))
            return JSONResponse({"$schema": schema, "result": result})
        except RefusedError as refused:
            return refusal(refused, schema)


def negotiate(document: Json) -> str:
    """Returns the version as the caller spells it; absent, it is the latest. Raises RefusedError."""
    if not isinstance(document, dict):
        raise RefusedError("The request must be a JSON object")
    schema = document.get("$schema", CANONICAL)
    if schema not in SPELLINGS:
        raise RefusedError(
            "This version of OTC is not supported", developer_message=f"Supported: {', '.join(SPELLINGS)}"
        )
    return str(schema)


def otc_definition(definition: JsonObject) -> JsonObject:
    return {**definition, "input_schema": {"parameters": definition["input_schema"]}}


def refusal(refused: RefusedError, schema: str) -> Response:
    return JSONResponse({"$schema": schema, **refused.body}, refused.status, headers=refused.headers)


def build(site: Site, _options: Options) -> Starlette:
    toolbox = Toolbox(otc_tools.tools(site.stopping))
    server = OtcServer(site, toolbox)
    routes = [
        Route("/tools", server.list_tools),
        Route("/tools/call", server.call_tool, methods=["POST"]),
        Route("/call", server.call_tool, methods=["POST"]),  # as the examples of the specification spell it
    ]
    return create_app(routes, toolbox)


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks OTC 1.0.", default_port=9101)
