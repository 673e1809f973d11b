"""A demonstration tool server that speaks both forms of OXP 1.0: `python -m gateway.demo.oxp_server`.

Flat: bare bodies and the `OXP-Version` header (OXP Call Tool). Enveloped: `request`, `result` and `$schema`
(OXP's OpenAPI file). A request is answered in the form it has itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo import consent, oxp_tools
from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Json, JsonObject, RefusedError, Toolbox

VERSION_HEADER = "OXP-Version"
VERSIONS = ("1.0", "1.0.0")  # the examples write the first, the prose asks for the second
SCHEMAS = ("urn:oxp:1.0", "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json")


@dataclass(frozen=True)
class Form:
    """How a request is written, and so its answer: flat when `schema` is None. Repeats the caller's spellings."""

    schema: str | None
    version: str = VERSIONS[0]

    def answer(self, body: JsonObject) -> Response:
        return self._reply(body if self.schema is None else {"result": body})

    def catalogue(self, definitions: list[JsonObject]) -> Response:
        return self._reply({"items": definitions})

    def refusal(self, refused: RefusedError) -> Response:
        return self._reply(refused.body, refused.status, refused.headers)

    def _reply(self, body: JsonObject, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        if self.schema is None:
            return JSONResponse(body, status, headers={VERSION_HEADER: self.version, **(headers or {})})
        return JSONResponse({"$schema": self.schema, **body}, status, headers=headers)


FLAT = Form(schema=None)
ENVELOPED = Form(schema=SCHEMAS[0])


class OxpServer:
    """The two operations of OXP. Until its form is known a request is answered flat, which is valid in both."""

    def __init__(self, site: Site, toolbox: Toolbox) -> None:
        self._site = site
        self._toolbox = toolbox

    async def list_tools(self, request: Request) -> Response:
        # Only the header asks for flat; callers that say nothing are the enveloped SDKs.
        form = FLAT if VERSION_HEADER in request.headers else ENVELOPED
        try:
            self._site.admit(request)
            document = decode(await read_body(request) or b"{}")
            form = negotiate(form, request.headers, document)
            return form.catalogue(self._toolbox.definitions())
        except RefusedError as refused:
            return form.refusal(refused)

    async def call_tool(self, request: Request) -> Response:
        form = FLAT
        try:
            self._site.admit(request)
            document = decode(await read_body(request))
            form = form_of(document)
            form = negotiate(form, request.headers, document)
            result = await self._toolbox.call(document if form.schema is None else document["request"])
            return form.answer(result)
        except RefusedError as refused:
            return form.refusal(refused)


def form_of(document: Json) -> Form:
    """Tells the form of a call by its members. Raises RefusedError when they say both or neither."""
    if not isinstance(document, dict):
        raise RefusedError("The request must be a JSON object")
    if ("request" in document) == ("tool_id" in document):
        raise RefusedError("The request is invalid", developer_message="It must have either `request` or `tool_id`")
    return ENVELOPED if "request" in document else FLAT


def negotiate(form: Form, headers: Headers, document: Json) -> Form:
    """Takes over the version as the caller spells it; absent, it is the latest. Raises RefusedError."""
    stated = headers.getlist(VERSION_HEADER)
    if len(stated) > 1 or any(version not in VERSIONS for version in stated):
        raise RefusedError(
            "This version of OXP is not supported", developer_message=f"Supported: {', '.join(VERSIONS)}"
        )
    if form.schema is None:
        return replace(form, version=stated[0]) if stated else form
    if not isinstance(document, dict):
        raise RefusedError("The request must be a JSON object")
    schema = document.get("$schema", form.schema)
    if schema not in SCHEMAS:
        raise RefusedError("This version of OXP is not supported", developer_message=f"Supported: {', '.join(SCHEMAS)}")
    return replace(form, schema=schema)


def build(site: Site, _options: Options) -> Starlette:
    accounts = consent.Consent(site.base_url)
    toolbox = Toolbox(oxp_tools.tools(), partial(oxp_tools.authorize, accounts))
    server = OxpServer(site, toolbox)
    routes = [
        Route("/tools", server.list_tools),
        Route("/tools/call", server.call_tool, methods=["POST"]),
        Route("/call", server.call_tool, methods=["POST"]),  # as the examples of the specification spell it
        *consent.routes(accounts),
    ]
    return create_app(routes, toolbox, {VERSION_HEADER: VERSIONS[0]})


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks OXP 1.0, flat and enveloped.", default_port=9102)
