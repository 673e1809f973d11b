"""Servers with one fault each: what a good server says is spoiled on its way to the kit."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

Forward = Callable[[httpx.Request], Awaitable[httpx.Response]]
Spoil = Callable[[httpx.Request, Forward], Awaitable[httpx.Response]]
Fits = Callable[[httpx.Request], bool]
Edit = Callable[[Any], Any]

FRAMING = frozenset({"content-length", "content-encoding"})  # of what was sent; an answer holds it decoded


class Spoiled(httpx.AsyncBaseTransport):
    """Passes requests on to a good server, each through `spoil`."""

    def __init__(self, good: httpx.AsyncBaseTransport, spoil: Spoil | None = None) -> None:
        self._good = good
        self._spoil = spoil

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return await (self._forward(request) if self._spoil is None else self._spoil(request, self._forward))

    async def aclose(self) -> None:
        await self._good.aclose()

    async def _forward(self, request: httpx.Request) -> httpx.Response:
        answer = await self._good.handle_async_request(request)
        await answer.aread()
        return answer


def remade(answer: httpx.Response, **changes: Any) -> httpx.Response:
    """An answer with another status, content or headers; a header that becomes None goes."""
    headers = {name: value for name, value in answer.headers.items() if name not in FRAMING}
    headers |= changes.get("headers", {})
    content = changes.get("content", answer.content)
    kept = {name: value for name, value in headers.items() if value is not None}
    return httpx.Response(changes.get("status", answer.status_code), headers=kept, content=content)


def document(request: httpx.Request) -> Any:
    """What the body of a request holds; an empty object for what is no JSON object."""
    try:
        found = json.loads(request.content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def asked(request: httpx.Request) -> Any:
    """The request inside an envelope, or the flat one."""
    found = document(request)
    return found.get("request", found)


def is_list(request: httpx.Request) -> bool:
    return request.url.path.endswith("/tools")


def is_call(request: httpx.Request) -> bool:
    return request.method == "POST"


def is_health(request: httpx.Request) -> bool:
    return request.url.path.endswith("/health")


def sends(**members: Any) -> Fits:
    """Calls whose request has these members."""
    return lambda request: (
        is_call(request)
        and all(
            isinstance(asked(request), dict) and asked(request).get(name) == value for name, value in members.items()
        )
    )


def status(fits: Fits, becomes: int, only: int | None = None) -> Spoil:
    """The status of some answers is another; with `only` if it would be that one."""

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        return remade(answer, status=becomes) if fits(request) and only in (None, answer.status_code) else answer

    return spoil


def header(fits: Fits, name: str, becomes: str | None) -> Spoil:
    """A header of some answers is another, or gone."""

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        return remade(answer, headers={name: becomes}) if fits(request) else answer

    return spoil


def content(fits: Fits, becomes: bytes) -> Spoil:
    """The body of some answers is another."""

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        return remade(answer, content=becomes) if fits(request) else answer

    return spoil


def body(fits: Fits, edit: Edit, only: int = 200) -> Spoil:
    """The JSON in the body of some answers of a status is edited."""

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        if not fits(request) or answer.status_code != only:
            return answer
        return remade(answer, content=json.dumps(edit(answer.json())).encode())

    return spoil
