"""A demonstration tool server that speaks RCRT, its runner included: `python -m gateway.demo.rcrt_server`.

Wire form: breadcrumbs over HTTP as RCRT's server has them in November 2025: errors are plain text, success is 200,
lists need no token. The event stream has data lines only, pings as data, no ids, no replay, and nothing beyond 1 MiB.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from jsonschema_rs import Draft202012Validator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.demo.rcrt_runner import OWNER_ID, BreadcrumbStore, Runner, stock_tools
from gateway.demo.service import Options, Site, bearer, create_app, decode, main, read_body
from gateway.demo.toolbox import JsonObject, NotRunError

PING_S = 5.0
TOKEN_LIFE_S = 3600  # unless `ttl_sec` says otherwise
ROLES = ("curator", "emitter", "subscriber")
CREATING = frozenset({"curator", "emitter"})
MAX_TOKENS = 1000
MAX_KEYS = 10_000  # idempotency keys; the real server keeps them for ever
MAX_STREAMS = 100
MAX_UNREAD = 1000  # events for one stream; a slower reader loses some
MAX_EVENT_BYTES = 1024 * 1024  # the payload limit of the broker inside the real server: larger events vanish
SHOWN = ("title", "description", "semantic_version", "ttl")  # of a draft, may be absent
TEXT = {"type": ["string", "null"]}
TAGS = {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": 100}
CHANGE_SCHEMA = {
    "type": "object",
    "properties": {"schema_name": TEXT, "context": {}, "tags": TAGS, **dict.fromkeys(SHOWN, TEXT)},
}
CHANGE = Draft202012Validator(CHANGE_SCHEMA, mask="The value")
MAX_TTL_S = 10**9
TOKEN_SCHEMA = {
    "type": "object",
    "properties": {
        "roles": {"type": ["array", "null"], "items": {"type": "string", "maxLength": 100}, "maxItems": 100},
        "ttl_sec": {"type": "integer", "minimum": -MAX_TTL_S, "maximum": MAX_TTL_S},
    },
}
TOKEN = Draft202012Validator(TOKEN_SCHEMA, mask="The value")
DRAFT = Draft202012Validator(CHANGE_SCHEMA | {"required": ["title", "context", "tags"]}, mask="The value")


@dataclass(frozen=True)
class Grant:
    """What a token is good for, and until when."""

    owner_id: str
    roles: frozenset[str]
    ends_at: float


class RcrtServer:
    """The endpoints of breadcrumbs, tokens and events. Every identity gets a token for the asking."""

    ping_s = PING_S

    def __init__(self, site: Site, store: BreadcrumbStore) -> None:
        self.site = site
        self.store = store
        self.tokens: OrderedDict[str, Grant] = OrderedDict()
        self._keys: OrderedDict[str, None] = OrderedDict()
        self.streams: dict[asyncio.Queue[bytes | None], str] = {}
        store.listeners.append(self.publish)

    def routes(self) -> list[Route]:
        return [
            Route("/auth/token", self.token, methods=["POST"]),
            Route("/events/stream", self.stream),
            Route("/breadcrumbs", self.create, methods=["POST"]),
            Route("/breadcrumbs", self.list),
            Route("/breadcrumbs/{id}/full", self.read),
            Route("/breadcrumbs/{id}", self.change, methods=["PATCH"]),
            Route("/breadcrumbs/{id}", self.delete, methods=["DELETE"]),
        ]

    async def token(self, request: Request) -> Response:
        """Mints a token. With `--token` minting asks for that token."""
        self.site.admit(request)
        document = decode(await read_body(request))
        try:
            owner_id, agent_id = (str(uuid.UUID(document[name])) for name in ("owner_id", "agent_id"))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise NotRunError("owner_id and agent_id must be UUIDs", status=400) from None
        for error in TOKEN.iter_errors(document):
            raise NotRunError(error.message[:300], status=422)
        token, roles = secrets.token_urlsafe(), document.get("roles") or list(ROLES)
        ends_at = int(time.time()) + document.get("ttl_sec", TOKEN_LIFE_S)
        self.tokens[token] = Grant(owner_id, frozenset(roles), ends_at)
        if len(self.tokens) > MAX_TOKENS:
            self.tokens.popitem(last=False)
        identity = {"owner_id": owner_id, "agent_id": agent_id, "roles": roles}
        return JSONResponse({"token": token, **identity, "exp": ends_at})

    def identify(self, request: Request) -> str:
        """The owner in whose name a request is made. Raises RefusedError (401)."""
        token = token_in(request)
        if self.site.is_token(token):
            return OWNER_ID
        grant = self.tokens.get(token)
        if grant is None or grant.ends_at < time.time():
            raise NotRunError("invalid token", status=401)
        return grant.owner_id

    def check_roles(self, request: Request) -> None:
        """Raises RefusedError (403) if the token of a request may not create breadcrumbs."""
        grant = self.tokens.get(token_in(request))
        if grant is not None and not grant.roles & CREATING:
            raise NotRunError("emitter role required", status=403)

    async def create(self, request: Request) -> Response:
        """Stores a breadcrumb, unless its idempotency key was used before, by whomever."""
        owner_id = self.identify(request)
        self.check_roles(request)
        self.check_content_type(request)
        draft = await read_draft(request, DRAFT)
        self.use_key(request)
        known = {name: draft.get(name) for name in ("schema_name", "tags", "context", *SHOWN)}
        return JSONResponse({"id": self.store.create(known, owner_id)["id"]})

    def check_content_type(self, request: Request) -> None:
        """Raises RefusedError (415) for a body that is not declared as JSON."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise NotRunError("Expected request with `Content-Type: application/json`", status=415)

    def use_key(self, request: Request) -> None:
        """Uses up the idempotency key of a request, if it has one. Raises RefusedError (409)."""
        key = request.headers.get("idempotency-key")
        if key in self._keys:
            raise NotRunError("duplicate idempotency key", status=409)
        if key is not None:
            self._keys[key] = None
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)

    async def list(self, request: Request) -> Response:
        """Needs no token and knows no tenants, as the real one."""
        query = request.query_params
        try:
            offset, limit = int(query.get("offset", 0)), int(query.get("limit", MAX_KEYS))
        except ValueError:
            raise NotRunError("Failed to deserialize query string") from None
        names = ["id", "title", "tags", "schema_name", "version", "updated_at"]
        names += ["context"] if query.get("include_context") == "true" else []
        found = self.store.select(query.get("tag"), query.get("schema_name"))[offset : offset + limit]
        return JSONResponse([{name: crumb[name] for name in names} for crumb in found])

    async def read(self, request: Request) -> Response:
        self.identify(request)
        return JSONResponse(self.known(request))

    def known(self, request: Request) -> JsonObject:
        """The breadcrumb in the path of a request. Raises RefusedError (404)."""
        crumb = self.store.crumbs.get(request.path_params["id"])
        if crumb is None:
            raise NotRunError("not found", status=404)
        return crumb

    async def change(self, request: Request) -> Response:
        """Replaces members of a breadcrumb, if it still has the version in `If-Match`; an unreadable one is ignored."""
        self.identify(request)
        draft = await read_draft(request, CHANGE)
        crumb = self.store.crumbs.get(request.path_params["id"])
        if crumb is None:  # not 404, as the real one
            raise NotRunError("no rows returned by a query that expected to return at least one row", status=500)
        expected = request.headers.get("if-match", "").strip('"')
        if expected.isdecimal() and int(expected) != crumb["version"]:
            raise NotRunError("version_mismatch", status=412)
        known = {
            name: draft[name] for name in ("schema_name", "tags", "context", *SHOWN) if draft.get(name) is not None
        }
        self.store.change(crumb, known)
        return JSONResponse({"ok": True})

    async def delete(self, request: Request) -> Response:
        """Deletes a breadcrumb, without an event."""
        self.identify(request)
        del self.store.crumbs[self.known(request)["id"]]
        return JSONResponse({"ok": True})

    async def stream(self, request: Request) -> Response:
        """Subscribes before the answer begins: nothing is missed after its head."""
        owner_id = self.identify(request)
        if len(self.streams) >= MAX_STREAMS:
            raise NotRunError("too many streams", status=503)
        unread: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_UNREAD)
        self.streams[unread] = owner_id
        return StreamingResponse(self.chunks(request, unread), media_type="text/event-stream")

    async def chunks(self, _request: Request, unread: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes, None]:
        """The lines of one stream: events, and pings in between, the first at once. None in the queue ends it."""
        item: bytes | None = b'{"type":"ping"}'
        try:
            while item is not None:
                yield b"data: " + item + b"\n\n"
                try:
                    async with asyncio.timeout(self.ping_s):
                        item = await unread.get()
                except TimeoutError:
                    item = b'{"type":"ping"}'
        finally:
            self.streams.pop(unread, None)

    def publish(self, event: JsonObject) -> None:
        """Puts an event into every stream of its owner that has room."""
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        for unread, owner_id in self.streams.items():
            if len(data) <= MAX_EVENT_BYTES and owner_id == event["owner_id"] and not unread.full():
                unread.put_nowait(data)


def token_in(request: Request) -> str:
    """The token of a request: in its header, or in its query if there is no such header."""
    if "authorization" in request.headers:
        return bearer(request)
    return request.query_params.get("access_token", request.query_params.get("token", ""))


async def read_draft(request: Request, validator: Draft202012Validator) -> JsonObject:
    """The members of a breadcrumb in a request. Raises RefusedError (400, 422)."""
    draft: JsonObject = decode(await read_body(request))
    for error in validator.iter_errors(draft):
        raise NotRunError(error.message[:300], status=422)
    return draft


async def plain_refusal(_request: Request, exc: Exception) -> Response:
    """The answer to a request that was refused, in plain text."""
    assert isinstance(exc, NotRunError)
    return PlainTextResponse(str(exc), exc.status, headers=exc.headers)


def build(site: Site, _options: Options) -> Starlette:
    store = BreadcrumbStore()
    server = RcrtServer(site, store)  # before the runner: a request is announced ahead of what comes of it
    runner = Runner(store, stock_tools())
    app = create_app(server.routes(), runner.executions)
    app.add_exception_handler(NotRunError, plain_refusal)
    return app


if __name__ == "__main__":
    main(build, "A demonstration tool server that speaks RCRT and runs its stock tools.", default_port=9104)
