"""The console as an application: the files of its page, and the questions that the page asks.

It answers questions only, but for three: `backends/{name}/refresh`, `calls/cancel` and `send` change something. These
take a POST with a body of JSON, which no page of another origin can send unseen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.console import guard
from gateway.console.files import FIRST, static_files
from gateway.console.headers import HEADERS
from gateway.console.relay import Relay
from gateway.console.view import PRINCIPAL, RefusedQuestionError, View
from gateway.core import jsontext
from gateway.core.model import JsonObject
from gateway.http.origins import AllowedHosts
from gateway.settings import ConsoleSettings

MAX_BODY_BYTES = 16 * 1024 * 1024  # of a POST: a call that is tried may have a large input
NO_STORE = HEADERS | {"cache-control": "no-store"}
QUESTIONS = ("overview", "backends", "tools", "calls", "log", "configuration")

Endpoint = Callable[[Request], Awaitable[Response]]


def console_app(view: View, relay: Relay) -> Starlette:
    """The pages and their questions. To be behind `OperatorsOnly`, or a login."""
    app = Starlette(routes=_Routes(view, relay).all(), exception_handlers={HTTPException: _refuse})
    app.router.redirect_slashes = False  # to a path without the slash, at whatever host the request names
    return app


class OperatorsOnly:
    """The console on the operators' listener: for requests of its own pages only, and while it is enabled.

    `settings` are looked up for each request.
    """

    def __init__(self, console: ASGIApp, settings: Callable[[], ConsoleSettings]) -> None:
        self._console = console
        self._settings = settings

    def is_served_at(self, host: str) -> bool:
        """Whether a Host header names this listener, for all that operators get there."""
        return guard.is_known(host, AllowedHosts(self._settings().hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._console(scope, receive, send)
        settings, request = self._settings(), Request(scope, receive)
        if not settings.enabled:
            answer = _answer(404, "The console is switched off (console.enabled).")
        elif (refusal := guard.refusal(request, AllowedHosts(settings.hosts), is_page=_is_page(scope))) is not None:
            answer = _answer(403, refusal)
        else:
            return await self._console(scope, receive, send)
        return await answer(scope, receive, send)


def _is_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return not path.removeprefix(scope.get("root_path", "")).startswith("/api/")


class _Routes:
    def __init__(self, view: View, relay: Relay) -> None:
        self._view = view
        self._relay = relay

    def all(self) -> list[Route]:
        questions = [Route(f"/api/{name}", self._asking(name)) for name in QUESTIONS]
        return [
            Route("/", self._page),
            Route("/api/session", _answering(self._session)),
            *questions,
            Route("/api/tools/{name}", _answering(self._tool)),
            Route("/api/backends/{name}/refresh", _answering(self._refresh), methods=["POST"]),
            Route("/api/calls/cancel", _answering(self._cancel), methods=["POST"]),
            Route("/api/send", _answering(self._send), methods=["POST"]),
            Route("/{file}", self._file),
        ]

    def _asking(self, question: str) -> Endpoint:
        async def ask(request: Request) -> Response:
            return _json(await self._view.ask(question, dict(request.query_params)))

        return _answering(ask)

    async def _session(self, request: Request) -> Response:
        session = await self._view.ask("session", {})
        principal = request.scope.get(PRINCIPAL)
        return _json(session | {"principal": principal, "is_public": principal is not None})

    async def _tool(self, request: Request) -> Response:
        return _json(await self._view.ask("tool", {**request.query_params, **request.path_params}))

    async def _refresh(self, request: Request) -> Response:
        await _body(request)
        return _json(await self._view.ask("refresh", request.path_params))

    async def _cancel(self, request: Request) -> Response:
        return _json(await self._view.ask("cancel", await _body(request)))

    async def _send(self, request: Request) -> Response:
        lines = self._relay.send(await _body(request))
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=NO_STORE)

    async def _page(self, request: Request) -> Response:
        return _file(FIRST, request)

    async def _file(self, request: Request) -> Response:
        return _file(request.path_params["file"], request)


def _file(name: str, request: Request) -> Response:
    """One of the files, which browsers ask again for each time: a newer gateway has other ones."""
    found = static_files().get(name)
    if found is None:
        return _answer(404, "There is nothing here.")
    headers = HEADERS | {"cache-control": "no-cache", "etag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers | {"content-type": found.media_type})


def _answering(endpoint: Endpoint) -> Endpoint:
    """Answers a question that is refused with the reason."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedQuestionError as refused:
            return _answer(refused.status, str(refused))

    return answer


async def _body(request: Request) -> JsonObject:
    """The JSON object that a POST brings. Raises RefusedQuestionError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedQuestionError(415, "The body must be application/json.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise RefusedQuestionError(413, f"The body must not be larger than {MAX_BODY_BYTES} bytes.")
    try:
        document = jsontext.decode(bytes(body))
    except jsontext.JsonError as exc:
        raise RefusedQuestionError(400, "The body is not JSON.") from exc
    if not isinstance(document, dict):
        raise RefusedQuestionError(400, "The body must be a JSON object.")
    return document


def _json(document: Any) -> Response:
    return Response(jsontext.encode(document), headers=NO_STORE | {"content-type": "application/json"})


def _answer(status: int, message: str) -> Response:
    return JSONResponse({"message": message}, status, NO_STORE)


async def _refuse(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    message = "This takes another method." if exc.status_code == 405 else "There is nothing here."
    return JSONResponse({"message": message}, exc.status_code, NO_STORE | dict(exc.headers or {}))
