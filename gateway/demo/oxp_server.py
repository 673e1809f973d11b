"""A demonstration tool server that speaks both forms of OXP 1.0: `python -m gateway.demo.oxp_server`.

Flat: bare bodies and the `OXP-Version` header (OXP Call Tool). Enveloped: `request`, `result` and `$schema`
(OXP's OpenAPI file). A request is answered in the form it has itself.

Mail wants the user's consent, Sms a secret of the caller, Notes to know the user.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo import consent
from gateway.demo.consent import ConsentRecords
from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Context, DemoTool, Json, JsonObject, NotRunError, Toolbox, ToolError, object_schema

VERSION_HEADER = "OXP-Version"
VERSIONS = ("1.0", "1.0.0")  # the examples write the first, the prose asks for the second
SCHEMAS = ("urn:oxp:1.0", "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json")

PROVIDER = "demo-mail"
GOOD_TOKEN = "demo-token"  # noqa: S105 - printed in the documentation: it opens nothing but the messages below
SMS_SECRET = "SMS_API_KEY"  # noqa: S105 - its name
MAX_USERS = 200  # with notes; the one not heard of for longest goes first
MAX_NOTES = 50  # per user
MAX_NOTE_CHARACTERS = 500

MESSAGES = [
    {"id": "m-1", "from": "billing@example.com", "subject": "Invoice 1042", "date": "2025-03-02"},
    {"id": "m-2", "from": "ana@example.com", "subject": "Lunch on Friday?", "date": "2025-03-04"},
    {"id": "m-3", "from": "billing@example.com", "subject": "Invoice 1057", "date": "2025-04-02"},
    {"id": "m-4", "from": "alerts@example.com", "subject": "Disk almost full", "date": "2025-04-09"},
]
STRING = {"type": "string"}
MESSAGE_SCHEMA = object_schema({"id": STRING, "from": STRING, "subject": STRING, "date": STRING})
NOTE_SCHEMA = object_schema({"id": STRING, "text": STRING}, "id", "text")


@dataclass(frozen=True)
class Form:
    """How a request is written, and so its answer: flat when `schema` is None. Repeats the caller's spellings."""

    schema: str | None
    version: str = VERSIONS[0]

    def answer(self, body: JsonObject) -> Response:
        return self._reply(body if self.schema is None else {"result": body})

    def catalogue(self, definitions: list[JsonObject]) -> Response:
        return self._reply({"items": definitions})

    def refusal(self, refused: NotRunError) -> Response:
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
        except NotRunError as refused:
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
        except NotRunError as refused:
            return form.refusal(refused)


def form_of(document: Json) -> Form:
    """Tells the form of a call by its members. Raises RefusedError when they say both or neither."""
    if not isinstance(document, dict):
        raise NotRunError("The request must be a JSON object")
    if ("request" in document) == ("tool_id" in document):
        raise NotRunError("The request is invalid", developer_message="It must have either `request` or `tool_id`")
    return ENVELOPED if "request" in document else FLAT


def negotiate(form: Form, headers: Headers, document: Json) -> Form:
    """Takes over the version as the caller spells it; absent, it is the latest. Raises RefusedError."""
    stated = headers.getlist(VERSION_HEADER)
    if len(stated) > 1 or any(version not in VERSIONS for version in stated):
        raise NotRunError("This version of OXP is not supported", developer_message=f"Supported: {', '.join(VERSIONS)}")
    if form.schema is None:
        return replace(form, version=stated[0]) if stated else form
    if not isinstance(document, dict):
        raise NotRunError("The request must be a JSON object")
    schema = document.get("$schema", form.schema)
    if schema not in SCHEMAS:
        raise NotRunError("This version of OXP is not supported", developer_message=f"Supported: {', '.join(SCHEMAS)}")
    return replace(form, schema=schema)


def authorize(consent: ConsentRecords, context: Context) -> list[JsonObject]:
    """The challenge for a caller with no good token, whose user is not connected either."""
    token = context.tokens.get(PROVIDER)
    if token is not None:
        # A token that is presented decides alone, and a bad one means the old consent went wrong: ask anew.
        good = hmac.compare_digest(token.encode(), GOOD_TOKEN.encode())
        return [] if good else [consent.challenge(context.user_id, fresh=True)]
    return [] if consent.is_connected(context.user_id) else [consent.challenge(context.user_id)]


async def search_mail(arguments: JsonObject, _context: Context) -> Json:
    words = arguments["query"].casefold()
    found = [message for message in MESSAGES if words in f"{message['from']} {message['subject']}".casefold()]
    return found[: int(arguments.get("limit", len(MESSAGES)))]  # 2.0 is an integer in JSON Schema


async def send_sms(arguments: JsonObject, _context: Context) -> Json:
    return {"status": "queued", "to_last4": arguments["to"][-4:]}


class Notebook:
    """Notes by user, in memory, the oldest users forgotten first."""

    def __init__(self) -> None:
        self._notes: OrderedDict[str, list[JsonObject]] = OrderedDict()

    async def create(self, arguments: JsonObject, context: Context) -> Json:
        notes = self._notes.setdefault(context.user_id, [])
        self._notes.move_to_end(context.user_id)
        if len(self._notes) > MAX_USERS:
            self._notes.popitem(last=False)
        if len(notes) >= MAX_NOTES:
            raise ToolError(f"There is no room for more than {MAX_NOTES} notes")
        note = {"id": f"note-{len(notes) + 1}", "text": arguments["text"]}
        notes.append(note)
        return note

    async def read(self, _arguments: JsonObject, context: Context) -> Json:
        return self._notes.get(context.user_id, [])


def tools() -> list[DemoTool]:
    """Everything the server offers."""
    notebook = Notebook()
    query = {"query": {"type": "string", "maxLength": 200}, "limit": {"type": "integer", "minimum": 1}}
    phone = {"type": "string", "pattern": "^[+]?[0-9]{7,15}$"}
    sms = object_schema({"to": phone, "text": {"type": "string", "maxLength": 160}}, "to", "text")
    queued = object_schema({"status": STRING, "to_last4": STRING}, "status", "to_last4")
    text = object_schema({"text": {"type": "string", "maxLength": MAX_NOTE_CHARACTERS}}, "text")
    notes, messages = ({"type": "array", "items": each} for each in (NOTE_SCHEMA, MESSAGE_SCHEMA))
    consent = {"authorization": [{"id": PROVIDER, "oauth2": {"scopes": ["mail.read"]}}], "user_id": True}
    secret, user = {"secrets": [{"id": SMS_SECRET}]}, {"user_id": True}
    searching, version = "Searches senders and subjects of the user's mail.", (1, 0, 0)
    return [
        DemoTool("Mail.Search", version, searching, object_schema(query, "query"), messages, search_mail, consent),
        DemoTool("Sms.Send", version, "Sends a text message.", sms, queued, send_sms, secret),
        DemoTool("Notes.Create", version, "Writes a note for the user.", text, NOTE_SCHEMA, notebook.create, user),
        DemoTool("Notes.List", version, "Lists the user's notes.", object_schema({}), notes, notebook.read, user),
    ]


def build(site: Site, _options: Options) -> Starlette:
    accounts = ConsentRecords(site.base_url)
    toolbox = Toolbox(tools(), partial(authorize, accounts))
    server = OxpServer(site, toolbox)
    routes = [
        Route("/tools", server.list_tools),
        Route("/tools/call", server.call_tool, methods=["POST"]),
        Route("/call", server.call_tool, methods=["POST"]),  # as the examples of the specification spell it
        *consent.routes(accounts),
    ]
    return create_app(routes, lambda: toolbox.executions, {VERSION_HEADER: VERSIONS[0]})


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks OXP 1.0, flat and enveloped.", default_port=9102)
