"""The RCRT demonstration server with one fault, named after the check that has to find it, or with a harmless trait."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.demo.rcrt_runner import OWNER_ID, WORKSPACE, BreadcrumbStore, Runner, ToolRequest, stock_tools
from gateway.demo.rcrt_server import RcrtServer, plain_refusal, token_in
from gateway.demo.service import Site, create_app
from gateway.demo.toolbox import NotRunError, ToolError
from tests.support.faulty_rcrt_server import without

Json = Any
Crumb = dict[str, Any]

PING_S = 0.15
REPLAYED = 20  # events on a new stream
SLOW_S = 1.2  # longer than the checks wait for an event
RUNS_S = 0.05  # how long a tool takes for the fault that loses requests meanwhile
MAX_AT_ONCE = 3

# What becomes of an answer: its status, its content type and its body.
Came = tuple[int, bytes, bytes]
JSON, TEXT = b"application/json", b"text/plain; charset=utf-8"


def edited(change: Callable[[Json], Json]) -> Callable[[Came], Came]:
    """Changes the document in answers of success."""

    def spoil(came: Came) -> Came:
        status, kind, body = came
        return came if status != 200 else (status, kind, json.dumps(change(json.loads(body))).encode())

    return spoil


def instead(status: int, other: int, body: bytes | None = None) -> Callable[[Came], Came]:
    """Another status, and another body."""
    return lambda came: (other, came[1], came[2] if body is None else body) if came[0] == status else came


def each(change: Callable[[Crumb], Crumb]) -> Callable[[Came], Came]:
    return edited(lambda entries: [change(entry) for entry in entries])


def without_empty(crumb: Crumb) -> Crumb:
    return crumb | {"context": {name: value for name, value in crumb["context"].items() if value != {}}}


def without_nulls(crumb: Crumb) -> Crumb:
    lists = {name: value for name, value in crumb.get("context", {}).items() if isinstance(value, list)}
    fewer = {name: [item for item in value if item is not None] for name, value in lists.items()}
    return crumb | ({"context": crumb["context"] | fewer} if fewer else {})


def if_refused(change: Callable[[Came], Came]) -> Callable[[Came], Came]:
    return lambda came: change(came) if came[0] >= 400 else came


def one_text(came: Came) -> Came:
    return came[0], came[1], came[2] + b"\nTraceback (most recent call last):"


ANSWERS: Mapping[str, tuple[str, str, Callable[[Came], Came]]] = {  # for a method and the start of a path
    "RCRT-001": ("POST", "/auth/token", edited(lambda document: document | {"exp": "later"})),
    "RCRT-002": ("POST", "/auth/token", instead(400, 200, b'{"token": "any"}')),
    "RCRT-010": ("POST", "/breadcrumbs", instead(200, 201)),
    "RCRT-011": ("GET", "/breadcrumbs/", edited(without_empty)),
    "RCRT-012": ("DELETE", "/breadcrumbs/", instead(404, 200, b'{"ok": true}')),
    "RCRT-013": ("POST", "/breadcrumbs", lambda came: (500, *came[1:]) if came[0] in (400, 422) else came),
    "RCRT-017": ("GET", "/breadcrumbs?", edited(lambda entries: entries[::-1])),
    "RCRT-018": ("GET", "/breadcrumbs?", each(without_nulls)),
    "RCRT-023": ("", "/breadcrumbs", if_refused(lambda came: (came[0], JSON, came[2]))),
    "RCRT-024": ("", "/breadcrumbs", if_refused(one_text)),
}
# What becomes of an event about a breadcrumb, on all streams.
EVENTS: Mapping[str, Callable[[Crumb], list[Crumb]]] = {
    "RCRT-034": lambda sent: [sent | {"type": "breadcrumb.created"}],
    "RCRT-035": lambda sent: [without(sent, "updated_at")],
    "RCRT-036": lambda sent: [sent] if sent["version"] == 1 else [],
    "RCRT-038": lambda sent: [sent, sent],
    "RCRT-064": lambda sent: [sent] if sent["schema_name"] != "tool.response.v1" else [],
}


def renamed(context: Crumb, old: str, new: str) -> Crumb:
    return {new if name == old else name: value for name, value in context.items()}


def _older(context: Crumb) -> Crumb:
    names = {"input_schema": "inputSchema", "output_schema": "outputSchema"}
    return {"name": context["name"], "definition": {new: context[old] for old, new in names.items()}}


# What becomes of the context of a response, by its status.
CONTEXTS: Mapping[str, tuple[str, Callable[[Crumb], Crumb]]] = {
    "RCRT-060": ("success", lambda context: renamed(context, "request_id", "requestId")),
    "RCRT-061": ("success", lambda context: context | {"error": "none"}),
    "RCRT-071": ("error", lambda context: context | {"output": None}),
    "RCRT-073": ("success", lambda context: context | {"execution_time_ms": "5 ms"}),
}
# What becomes of the breadcrumb of a tool, and of which one; empty: of all.
TOOLS: Mapping[str, tuple[str, Callable[[Crumb], Crumb]]] = {
    "RCRT-050": ("", lambda crumb: {"tags": [tag for tag in crumb["tags"] if tag != WORKSPACE]}),
    "RCRT-051": ("timer", lambda crumb: {"context": crumb["context"] | {"name": "Timer"}}),
    "RCRT-052": ("timer", lambda crumb: {"context": crumb["context"] | {"input_schema": {"type": "array"}}}),
    "RCRT-053": ("timer", lambda crumb: {"description": None}),
    "older-schemas": ("", lambda crumb: {"context": _older(crumb["context"])}),
    "RCRT-054": ("echo", lambda crumb: {"tags": [tag for tag in crumb["tags"] if tag != "approved"]}),
    "RCRT-074": ("echo", lambda crumb: {"context": crumb["context"] | {"output_schema": {"type": "string"}}}),
}
IN_METHODS = {
    *("RCRT-003", "RCRT-004", "RCRT-005", "RCRT-006", "RCRT-007", "RCRT-014", "RCRT-015", "RCRT-016", "RCRT-019"),
    *("RCRT-020", "RCRT-021", "RCRT-022", "RCRT-025"),
    *("RCRT-030", "RCRT-031", "RCRT-032", "RCRT-033", "RCRT-037", "RCRT-039", "RCRT-040", "RCRT-041"),
    *("RCRT-062", "RCRT-063", "RCRT-065", "RCRT-066", "RCRT-067", "RCRT-068", "RCRT-069", "RCRT-070", "RCRT-072"),
}
# What a server may do, and which recommendations that fails.
HARMLESS: Mapping[str, set[str]] = {
    "comments": set(),  # on the stream
    "disabled": {"RCRT-003", "RCRT-004", "RCRT-005", "RCRT-007"},  # authentication: all act as one owner
    "older-schemas": set(),  # of tools
    "slow": set(),  # tools
    "unreadable": set(),  # a tool of another owner, which is listed
}
FAULTS = sorted({*ANSWERS, *EVENTS, *CONTEXTS, *TOOLS, *IN_METHODS} - {*HARMLESS})


class FaultyRunner(Runner):
    """Spoils requests and responses."""

    def __init__(self, fault: str, store: BreadcrumbStore) -> None:
        self.fault = fault
        super().__init__(store, stock_tools())

    def hear(self, event: Crumb) -> None:
        if self.fault == "RCRT-068" and event.get("schema_name") == "tool.request.v1":
            event = event | {"tags": ["tool:request", WORKSPACE]}
        if self.fault == "RCRT-069" and event.get("schema_name") == "tool.request.v1":
            event = event | {"version": 1}
        if self.fault == "RCRT-067" and "requestId" not in (event.get("context") or {}):
            return
        super().hear(event)

    def accept(self, request: ToolRequest) -> None:
        is_lost = self.fault == "RCRT-066" and len(self._tasks) >= MAX_AT_ONCE
        if not is_lost and not (self.fault == "RCRT-070" and request.tool not in self._tools):
            super().accept(request)

    async def run(self, request: ToolRequest) -> Json:
        await asyncio.sleep({"RCRT-066": RUNS_S, "slow": SLOW_S}.get(self.fault, 0.0))
        try:
            return await super().run(request)
        except ToolError:
            if self.fault == "RCRT-072":
                return {"echo": ""}
            raise

    def respond(self, draft: Crumb, request: ToolRequest) -> None:
        context = draft["context"]
        status, change = CONTEXTS.get(self.fault, ("", lambda it: it))
        if context["status"] == status:
            draft = draft | {"context": change(context)}
        if self.fault == "RCRT-062":
            draft = draft | {"tags": [tag for tag in draft["tags"] if tag != "tool:response"]}
        for _ in range(2 if self.fault == "RCRT-063" and context["status"] == "success" else 1):
            super().respond(draft, request)


class FaultyRcrtServer(RcrtServer):
    """Spoils what is stored, found and streamed."""

    ping_s = PING_S

    def __init__(self, fault: str, site: Site, store: BreadcrumbStore) -> None:
        super().__init__(site, store)
        self.fault = fault
        self.opened = 0  # streams
        self.published: list[Crumb] = []

    def identify(self, request: Request) -> str:
        if self.fault == "disabled":
            return OWNER_ID
        try:
            return super().identify(request)
        except NotRunError:
            is_open = self.fault == "RCRT-003" and "authorization" not in request.headers
            is_open = is_open or (self.fault == "RCRT-005" and token_in(request) in self.tokens)
            if is_open or (self.fault == "RCRT-004" and request.url.path == "/events/stream"):
                return OWNER_ID
            raise

    async def create(self, request: Request) -> Response:
        try:
            return await super().create(request)
        except NotRunError as refused:
            if self.fault == "RCRT-014" and refused.status == 422:
                draft = json.loads(request.scope["kit.body"])
                if isinstance(draft, dict) and isinstance(draft.get("tags"), list):
                    self.store.create(draft | {"schema_name": "any"})
            raise

    async def read(self, request: Request) -> Response:
        self.identify(request)
        if self.fault == "unreadable" and self.known(request)["owner_id"] != OWNER_ID:
            raise NotRunError("not found", status=404)
        return await super().read(request)

    def check_roles(self, request: Request) -> None:
        if self.fault not in ("RCRT-007", "disabled"):
            super().check_roles(request)

    def check_content_type(self, request: Request) -> None:
        if self.fault != "RCRT-025":
            super().check_content_type(request)

    def use_key(self, request: Request) -> None:
        if self.fault != "RCRT-022":
            super().use_key(request)

    async def list(self, request: Request) -> Response:
        query = request.query_params
        wider = {"RCRT-015": "tag", "RCRT-016": "schema_name"}.get(self.fault)
        if wider is not None and "kit" in query.get("tag", "") and not query.get("tag", "").startswith("request:"):
            tag, schema_name = query["tag"], query.get("schema_name", "")
            found = [
                crumb for crumb in reversed(self.store.crumbs.values()) if _is_near(crumb, tag, schema_name, wider)
            ]
            offset, limit = int(query.get("offset", 0)), int(query.get("limit", len(found)))
            return JSONResponse(found[offset : offset + limit])
        if self.fault == "RCRT-065" and query.get("tag", "").startswith("request:"):
            return JSONResponse([])
        return await super().list(request)

    async def change(self, request: Request) -> Response:
        crumb = self.store.crumbs.get(request.path_params["id"], {})
        before = crumb.get("context")
        answer = await super().change(request)
        if self.fault == "RCRT-019":
            crumb["context"] = before | crumb["context"]
        return answer

    async def delete(self, request: Request) -> Response:
        if self.fault == "RCRT-021":
            self.known(request)
            return JSONResponse({"ok": True})
        return await super().delete(request)

    async def chunks(self, request: Request, unread: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes, None]:
        self.opened += "authorization" in request.headers  # the shared one is the first of these
        if self.fault == "RCRT-039" and self.opened > 1:
            self.streams.pop(unread)
        if self.fault == "RCRT-033":
            self.ping_s = 60.0
        first = True
        async for line in super().chunks(request, unread):
            if self.fault == "comments":
                yield b": comment\n\n: another\n"
            if first and self.fault == "RCRT-032":
                yield b'data: {"type":"welcome"}\n\n'
            else:
                yield line.replace(b"data: ", b"data:", 1) if self.fault == "RCRT-031" else line
            if first and self.fault == "RCRT-041":
                for event in self.published[-REPLAYED:]:
                    yield b"data: %b\n\n" % json.dumps(event).encode()
            first = False

    async def stream(self, request: Request) -> Response:
        answer = await super().stream(request)
        if self.fault == "RCRT-030":
            answer.headers["content-type"] = "text/plain"
        return answer

    def publish(self, event: Crumb) -> None:
        self.published.append(event)
        kept = dict(self.streams)
        if self.fault == "RCRT-037":  # as of a queue that two share
            self.streams = {unread: kept[unread] for unread in [*list(kept)[:1], *list(kept)[-1:]]}
        if self.fault == "RCRT-040":
            self.streams = dict.fromkeys(kept, str(event["owner_id"]))
        for sent in EVENTS[self.fault](event) if self.fault in EVENTS else [event]:
            super().publish(sent)
        self.streams = kept


def _is_near(crumb: Crumb, tag: str, schema_name: str, query: str) -> bool:
    """Whether a breadcrumb begins with what is asked for, where it should be equal."""
    if query == "tag":
        has_tag = any(each.startswith(tag) for each in crumb["tags"])
        return has_tag and schema_name in ("", crumb["schema_name"])
    return tag in crumb["tags"] and str(crumb["schema_name"]).startswith(schema_name)


class Front:
    """Stands before the application and spoils whole answers."""

    def __init__(self, fault: str, app: ASGIApp) -> None:
        self.fault = fault
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.fault == "RCRT-006" and scope["path"] == "/events/stream":
            scope["query_string"] = b""
        if self.fault == "RCRT-020":
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"if-match"]
        heard: list[Message] = []

        async def keep(message: Message) -> None:
            heard.append(message)

        async def listen() -> Message:
            message = await receive()
            scope["kit.body"] = scope.get("kit.body", b"") + message.get("body", b"")
            return message

        method, path, spoil = ANSWERS.get(self.fault, ("none", "", lambda came: came))
        target = scope["path"] + ("?" if scope["query_string"] else "")
        if method not in ("", scope["method"]) or not target.startswith(path):
            await self.app(scope, listen, send)
            return
        await self.app(scope, listen, keep)
        kind = dict(heard[0]["headers"])[b"content-type"]
        status, kind, body = spoil((heard[0]["status"], kind, b"".join(it.get("body", b"") for it in heard[1:])))
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def faulty_rcrt(fault: str = "") -> AsyncIterator[str]:
    """Runs the server with a fault, or without; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the demonstration servers do
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    store = BreadcrumbStore()
    server = FaultyRcrtServer(fault, Site(url), store)
    runner = FaultyRunner(fault, store)
    tool, change = TOOLS.get(fault, ("none", lambda crumb: {}))
    if fault == "unreadable":
        store.create(stock_tools()[0].draft(), "10000000-0000-0000-0000-000000000000")
    for crumb in store.crumbs.values():
        if tool in ("", crumb["context"]["name"]):
            crumb |= change(crumb)
    app = create_app(server.routes(), runner.executions)
    app.add_exception_handler(NotRunError, plain_refusal)
    config = uvicorn.Config(
        Front(fault, app), lifespan="off", log_level="critical", access_log=False, timeout_graceful_shutdown=1
    )
    serving = uvicorn.Server(config)
    task = asyncio.create_task(serving.serve(sockets=[listener]))
    try:
        yield url
    finally:
        serving.should_exit = True
        await task
