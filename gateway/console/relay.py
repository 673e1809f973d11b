"""Sends a request of the page to the gateway's own listener for callers, and tells how it went over the wire.

The answer is a stream of JSON objects, a line each: `{"request": {"line", "headers", "body"}}` as it was sent,
`{"response": {"line", "status", "headers"}}`, `{"data": text}` for each piece of the body, and at last
`{"end": {"duration_s", "bytes", "truncated"}}` or `{"error": sentence}`.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console.view import RefusedQuestionError
from gateway.core import jsontext
from gateway.core.model import JsonObject

if TYPE_CHECKING:
    import httpx

METHODS = frozenset({"GET", "POST", "DELETE"})
PATH = re.compile(r"/[!-~]{0,8191}")
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
VALUE = re.compile(r"[\t -~]{0,16384}")
OWN = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})  # headers of the connection
# Headers of proxies. The gateway may trust a proxy at this address, and would take the page's word for who calls.
OF_PROXIES = re.compile(r"forwarded|x-forwarded-.*|x-real-ip|via", re.IGNORECASE)
MAX_HEADERS = 64
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # shown to a person
LONGEST_S = 3600.0
MAX_RUNNING_REQUESTS = 32  # requests under way
CONNECT_S = 5.0


EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a listener at every address is reached


class Address(NamedTuple):
    """Where the listener for callers is, as seen from this process; `name` is what callers know it by."""

    host: str
    port: int
    is_tls: bool
    name: str

    @property
    def url(self) -> str:
        """What a connection is made to."""
        host = EVERYWHERE.get(self.host, self.host)
        return f"{'https' if self.is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"


class Asked(NamedTuple):
    """A request that the page wants to be sent."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes | None
    timeout_s: float


class Relay:
    """Sends requests to the listener at `address`, which is looked up for each."""

    def __init__(self, address: Callable[[], Address]) -> None:
        self._address = address
        self._under_way = 0

    def send(self, about: JsonObject) -> AsyncIterator[bytes]:
        """The lines of an exchange. Raises RefusedQuestionError."""
        asked = _asked(about)
        if self._under_way >= MAX_RUNNING_REQUESTS:
            raise RefusedQuestionError(503, "Too many requests of the console are under way.")
        return self._lines(asked)

    async def _lines(self, asked: Asked) -> AsyncIterator[bytes]:
        self._under_way += 1
        try:
            async with aclosing(self._exchange(asked)) as events:
                async for event in events:
                    yield jsontext.encode(event) + b"\n"
        finally:
            self._under_way -= 1

    async def _exchange(self, asked: Asked) -> AsyncGenerator[JsonObject]:
        import httpx  # takes 70 ms, which only gateways pay whose console is used

        address, began = self._address(), time.perf_counter()
        headers = [("Host", address.name), ("User-Agent", "toolgate-console"), *asked.headers]
        timeout = httpx.Timeout(asked.timeout_s, connect=CONNECT_S)
        try:
            async with (
                asyncio.timeout(asked.timeout_s),
                httpx.AsyncClient(verify=_trust(), trust_env=False, timeout=timeout) as client,
            ):
                url = address.url + asked.path
                request = client.build_request(asked.method, url, headers=headers, content=asked.body)
                yield {"request": _sent(request, asked)}
                answer = await client.send(request, stream=True)  # closed with its client
                yield {"response": _head(answer)}
                size, is_cut = 0, False
                decoder = codecs.getincrementaldecoder("utf-8")("replace")
                async for piece in answer.aiter_bytes():
                    kept = piece[: MAX_ANSWER_BYTES - size]
                    size += len(kept)
                    if text := decoder.decode(kept):
                        yield {"data": text}
                    if is_cut := len(kept) < len(piece):
                        break
                if text := decoder.decode(b"", final=True):
                    yield {"data": text}
                yield {"end": {"duration_s": time.perf_counter() - began, "bytes": size, "truncated": is_cut}}
        except (TimeoutError, httpx.TimeoutException):
            yield {"error": f"No answer within {asked.timeout_s:g} s."}
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
            yield {"error": f"The gateway did not answer: {exc or type(exc).__name__}."}


def _trust() -> ssl.SSLContext:
    """Trusts any certificate: the listener is this gateway's own, and its certificate is for its public name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _sent(request: httpx.Request, asked: Asked) -> JsonObject:
    return {
        "line": f"{request.method} {asked.path} HTTP/1.1",
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers.raw],
        "body": None if asked.body is None else asked.body.decode("utf-8", "replace"),
    }


def _head(answer: httpx.Response) -> JsonObject:
    return {
        "line": f"{answer.http_version} {answer.status_code} {answer.reason_phrase}",
        "status": answer.status_code,
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in answer.headers.raw],
    }


def _asked(about: JsonObject) -> Asked:
    """Reads what the page sends. Raises RefusedQuestionError."""
    method, path, headers, body = (about.get(name) for name in ("method", "path", "headers", "body"))
    if method not in METHODS:
        raise RefusedQuestionError(400, "The method must be GET, POST or DELETE.")
    if not isinstance(path, str) or PATH.fullmatch(path) is None:
        raise RefusedQuestionError(400, "The path must begin with a slash, and be printable ASCII.")
    if not isinstance(headers, list) or len(headers) > MAX_HEADERS or not all(map(_is_header, headers)):
        raise RefusedQuestionError(400, "A header cannot be sent: it has characters that HTTP does not allow.")
    if any(OF_PROXIES.fullmatch(name) or name.lower() in OWN for name, _ in headers):
        raise RefusedQuestionError(400, "A header cannot be sent: it is of the connection, or one that proxies write.")
    if body is not None and not isinstance(body, str):
        raise RefusedQuestionError(400, "The body must be text.")
    timeout_s = about.get("timeout_s", LONGEST_S)
    if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or not 0 < timeout_s <= LONGEST_S:
        raise RefusedQuestionError(400, f"timeout_s must be a number of seconds up to {LONGEST_S:g}.")
    encoded = None if body is None else body.encode("utf-8", "replace")
    return Asked(str(method), path, [(name, value) for name, value in headers], encoded, float(timeout_s))


def _is_header(pair: Any) -> bool:
    match pair:
        case [str(name), str(value)]:
            return NAME.fullmatch(name) is not None and VALUE.fullmatch(value) is not None
        case _:
            return False
