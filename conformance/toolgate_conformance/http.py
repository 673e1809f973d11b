"""Requests of the kit, each with what was sent and what came, so that a report can show both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
from msgspec import Struct

from toolgate_conformance.checks import SECRET_HEADERS, Exchange, UnfitError, shown

JSON = {"content-type": "application/json", "accept": "application/json"}
TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024


class Answer(Struct, frozen=True):
    """An answer of a tool server; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    exchange: Exchange

    @property
    def document(self) -> Any:
        """The body as JSON. Raises UnfitError if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise UnfitError("A body of JSON.", self.exchange) from None

    def member(self, name: str) -> Any:
        """A member of the body, which has to be an object; None if it lacks that one. Raises UnfitError."""
        document = self.document
        if not isinstance(document, dict):
            raise UnfitError("A body that is a JSON object.", self.exchange)
        return document.get(name)

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with this exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)


class Client:
    """Sends requests to one server. `headers` go with each; `transport` may carry them in another way than sockets."""

    def __init__(self, url: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self.headers = dict(headers)
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, transport=transport)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_known: bool = True,
    ) -> Answer:
        """Sends a request; with `is_known` off, without the credentials. Raises UnfitError without an answer."""
        fields = {**(self.headers if is_known else {}), **(headers or {})}
        url = path if "://" in path else self.url + path
        sent = _written(f"{method} {url}", fields, body or b"")
        try:
            async with self._http.stream(method, url, headers=fields, content=body) as answer:
                content = bytearray()
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise UnfitError(f"An answer of at most {MAX_ANSWER_BYTES} bytes.", Exchange(sent, "too long"))
        except httpx.HTTPError as exc:
            raise UnfitError("An answer.", Exchange(sent, f"{type(exc).__name__}: {exc}")) from exc
        got = {name.lower(): value for name, value in answer.headers.items()}
        line = f"{answer.http_version} {answer.status_code} {answer.reason_phrase}"
        return Answer(answer.status_code, got, bytes(content), Exchange(sent, _written(line, got, bytes(content))))


async def answers(url: str) -> bool:
    """Whether anything answers there."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:
            await http.get(f"{url.rstrip('/')}/health")
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return True


def _written(line: str, headers: Mapping[str, str], body: bytes) -> str:
    fields = [f"{name}: {'***' if name.lower() in SECRET_HEADERS else value}" for name, value in headers.items()]
    text = body.decode("utf-8", "backslashreplace")
    return shown("\n".join([line, *fields, "", text]).rstrip())
