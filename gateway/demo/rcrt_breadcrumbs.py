"""The breadcrumb endpoints of the RCRT demonstration server.

Follows RCRT's REST surface with its habits: 200 for a created breadcrumb, 500 for changing one that is not there, lists
that anybody may read. The newer edition has more ways to change one, which announce themselves without a context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.faults import Faults, hang_up, pause
from gateway.demo.rcrt_auth import Gate
from gateway.demo.rcrt_requests import CHANGES, DRAFT, MERGE, TAGS, number_of, one_of, read_json, shaped, uuid_of
from gateway.demo.rcrt_runner import Edition, Runner
from gateway.demo.rcrt_store import Actor, Breadcrumb, Store, TooLargeError
from gateway.demo.service import Site
from gateway.demo.toolbox import JsonObject

CREATE_FAULTS = {
    "status_401",
    "status_500",
    "status_503",
    "status_500_stored",  # the breadcrumb is there all the same
    "slow",  # the answer comes `seconds` after the breadcrumb is stored
    "reset",  # the connection breaks and nothing is stored
    "reset_stored",  # the connection breaks once it is stored
    "response_first",  # the answer waits until the tool has responded, `seconds` at most
    "no_id",
}
LIST_FAULTS = {"status_500", "status_503", "slow", "invalid_json", "empty"}
WRITERS = {"emitter", "curator"}
OK = {"ok": True}

Change = Callable[[Breadcrumb, JsonObject], JsonObject]


class Breadcrumbs:
    """What can be done to breadcrumbs, by whom, and what is said about it."""

    def __init__(self, site: Site, store: Store, gate: Gate, runner: Runner, faults: Faults) -> None:
        self._site = site
        self._store = store
        self._gate = gate
        self._runner = runner
        self._faults = faults

    def routes(self, edition: Edition) -> list[Route]:
        one = "/breadcrumbs/{id}"
        routes = [
            Route("/breadcrumbs", self.create, methods=["POST"]),
            Route("/breadcrumbs", self.list),
            Route("/breadcrumbs/search", self.search),
            Route(one, self._reading(Breadcrumb.view)),
            Route(f"{one}/full", self._reading(Breadcrumb.full)),
            Route(f"{one}/history", self._reading(lambda breadcrumb: list(breadcrumb.history))),
            Route(one, self.update, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]
        if edition == "M":
            return routes
        changes = [
            ("tags/add", self._changing(TAGS, _add_tags)),
            ("tags/remove", self._changing(TAGS, _remove_tags)),
            ("context/merge", self._changing(MERGE, _merge)),
            ("approve", self._changing(CHANGES, _approve)),
            ("reject", self._changing(CHANGES, _reject)),
        ]
        return [*routes, *(Route(f"{one}/{path}", change, methods=["POST"]) for path, change in changes)]

    async def create(self, request: Request) -> Response:
        actor = self._writer(request)
        draft = {"context": None, **shaped(await read_json(request), DRAFT)}  # the one field that may be null
        fault = self._faults.take("create", CREATE_FAULTS)
        name = "" if fault is None else fault.name
        if name == "status_401":  # ahead of the key, as whatever is wrong with a token
            raise HTTPException(401, "invalid token: InvalidSignature")
        key = request.headers.get("idempotency-key")
        if key is not None and not self._store.burn(key):
            raise HTTPException(409, "duplicate idempotency key")
        if name in ("status_500", "status_503"):
            raise HTTPException(int(name.removeprefix("status_")), "error returned from database")
        if name == "reset":
            return await hang_up(request)
        breadcrumb = self._write(lambda: self._store.create(draft, actor))
        match name:
            case "status_500_stored":
                raise HTTPException(500, "error communicating with database")
            case "reset_stored":
                return await hang_up(request)
            case "slow" if fault is not None:
                await pause(self._site, fault.seconds)
            case "response_first" if fault is not None:
                await self._runner.finished(breadcrumb.id, fault.seconds)
        return JSONResponse({} if name == "no_id" else {"id": breadcrumb.id})

    async def list(self, request: Request) -> Response:
        """Needs no token and knows no tenants, as the real one."""
        include = one_of(request, "include_context")
        if include not in (None, "true", "false"):
            raise HTTPException(400, "Failed to deserialize query string: include_context")
        limit, offset = number_of(request, "limit", 1), number_of(request, "offset", 0)
        fault = self._faults.take("list", LIST_FAULTS)
        match "" if fault is None else fault.name:
            case "status_500" | "status_503" as name:
                raise HTTPException(int(name.removeprefix("status_")), "error communicating with database")
            case "invalid_json":
                return Response('[{"id":', media_type="application/json")
            case "empty":
                return JSONResponse([])
            case "slow" if fault is not None:
                await pause(self._site, fault.seconds)
        found = self._store.select(one_of(request, "tag"), one_of(request, "schema_name"), limit, offset or 0)
        return JSONResponse([breadcrumb.item(with_context=include == "true") for breadcrumb in found])

    async def search(self, request: Request) -> Response:
        """Without a language model there are no vectors, and without vectors the real one finds nothing."""
        self._gate.identify(request)
        return JSONResponse([])

    async def update(self, request: Request) -> Response:
        actor = self._gate.identify(request)
        breadcrumb_id = uuid_of(request, "id")
        changes = shaped(await read_json(request), CHANGES)
        breadcrumb = self._store.get(breadcrumb_id)
        if breadcrumb is None:
            raise HTTPException(500, "no rows returned by a query that expected to return at least one row")
        expected = request.headers.get("if-match", "").strip('"')
        if expected.isascii() and expected.isdigit() and int(expected) != breadcrumb.version:
            raise HTTPException(412, "version_mismatch")
        self._write(lambda: self._store.update(breadcrumb, changes, actor))
        return JSONResponse(OK)

    async def delete(self, request: Request) -> Response:
        self._gate.identify(request)
        if not self._store.delete(uuid_of(request, "id")):
            raise HTTPException(404, "not found")
        return JSONResponse(OK)

    def _reading(self, read: Callable[[Breadcrumb], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self._gate.identify(request)
            return JSONResponse(read(self._known(request)))

        return answer

    def _changing(self, validator: Any, change: Change) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint of the newer edition: `change` applies a body and returns what the event says of it."""

        async def answer(request: Request) -> Response:
            actor = self._writer(request)
            breadcrumb = self._known(request)
            document = await read_json(request) if request.headers.get("content-type") else {}
            known = shaped(document, validator)
            said = change(breadcrumb, {**known, "reason": document.get("reason")})
            self._write(lambda: self._store.update(breadcrumb, {}, actor, announce=False))
            about = {"type": "breadcrumb.updated", "breadcrumb_id": breadcrumb.id, "owner_id": breadcrumb.owner_id}
            self._store.announce({**about, **said})
            return JSONResponse(OK)

        return answer

    def _writer(self, request: Request) -> Actor:
        actor = self._gate.identify(request)
        if not WRITERS.intersection(actor.roles):
            raise HTTPException(403, "emitter role required")
        return actor

    def _known(self, request: Request) -> Breadcrumb:
        breadcrumb = self._store.get(uuid_of(request, "id"))
        if breadcrumb is None:
            raise HTTPException(404, "not found")
        return breadcrumb

    def _write(self, write: Callable[[], Any]) -> Any:
        try:
            return write()
        except TooLargeError:
            raise HTTPException(413, "length limit exceeded") from None


def _add_tags(breadcrumb: Breadcrumb, known: JsonObject) -> JsonObject:
    added = [tag for tag in dict.fromkeys(known["tags"]) if tag not in breadcrumb.tags]
    breadcrumb.fields["tags"] = [*breadcrumb.tags, *added]
    return {"tags_added": len(added)}


def _remove_tags(breadcrumb: Breadcrumb, known: JsonObject) -> JsonObject:
    left = [tag for tag in breadcrumb.tags if tag not in known["tags"]]
    removed = len(breadcrumb.tags) - len(left)
    breadcrumb.fields["tags"] = left
    return {"tags_removed": removed}


def _merge(breadcrumb: Breadcrumb, known: JsonObject) -> JsonObject:
    breadcrumb.fields["context"] = _merged(breadcrumb.context, known["context"])
    return {"context_merged": True}


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}


def _approve(breadcrumb: Breadcrumb, _known: JsonObject) -> JsonObject:
    _add_tags(breadcrumb, {"tags": ["approved"]})
    return {"action": "approved"}


def _reject(breadcrumb: Breadcrumb, known: JsonObject) -> JsonObject:
    _remove_tags(breadcrumb, {"tags": ["approved"]})
    return {"action": "rejected", "reason": known["reason"]}
