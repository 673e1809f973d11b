"""Breadcrumbs over HTTP: create, find, read, delete, and the token that each of these takes.

RCRT's server of November 2025: success is 200, errors are plain text, tokens come from `POST /auth/token`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlencode

from gateway import jsontext
from gateway.backends.credentials import credentials_of
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects.fields import JSON_TYPE
from gateway.dialects.rcrt import MAX_DEPTH
from gateway.errors import GatewayError, unavailable
from gateway.model import Json, JsonObject
from gateway.offload import Checker, OffloadError
from gateway.settings import RcrtBackendSettings
from gateway.transport import Reply, TransportError
from gateway.wire import Headers

ROLES = ["emitter", "subscriber"]  # to create and to listen; reading takes none
TOKEN_LIFE_S = 3600.0  # what we ask for, the server's own default
TOKEN_USED = 0.8  # of its life; the rest is room for a server that cannot be reached for a while
NO_TOKEN_S = 60.0  # how long a server that issues none is not asked again
BETWEEN_TOKENS_S = 1.0  # a token refused sooner than that will not be followed by a better one
TOKEN_TIMEOUT_S = 5.0  # calls wait for it
MAX_TOKEN_BYTES = 64 * 1024
OUTPUTS = (b"output", b"result")  # members of a breadcrumb's context that hold what a tool returned
MAX_REASON = 200  # characters of a plain-text error that go to our log


class AnswerError(Exception):
    """An answer that is not the 200 that was hoped for; the text is for our log."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"status {status}: {reason}")
        self.status = status


class BrokenAnswerError(AnswerError):
    """A 200 from the server itself that nothing can be made of."""


class WideAnswerError(BrokenAnswerError):
    """An answer that would take too long to read."""


FAILURES = (TransportError, AnswerError, GatewayError)  # all that a request may end in, besides an answer


class Tokens(Protocol):
    """What requests are authenticated with."""

    async def headers(self) -> Headers:
        """Raises GatewayError (BACKEND_UNAVAILABLE) when there are none to be had."""
        ...

    def reject(self, headers: Headers) -> bool:
        """Takes note of a 401. Returns whether asking for headers again may help."""
        ...


class FixedTokens:
    """The same headers for every request."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    async def headers(self) -> Headers:
        return self._headers

    def reject(self, headers: Headers) -> bool:
        return False


class IssuedTokens:
    """Tokens of the server's own endpoint, or none while it issues none, as with its authentication switched off."""

    def __init__(
        self,
        server: Server,
        *,
        owner_id: str,
        agent_id: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._server = server
        wanted = {"owner_id": owner_id, "agent_id": agent_id, "roles": ROLES, "ttl_sec": int(TOKEN_LIFE_S)}
        self._body = jsontext.encode(wanted)
        self._clock = clock
        self._wall_clock = wall_clock
        self._headers: Headers = ()
        self._asked_at = self._renew_at = self._ends_at = float("-inf")
        self._asking = asyncio.Lock()

    async def headers(self) -> Headers:
        if self._clock() < self._renew_at:
            return self._headers
        async with self._asking:
            if self._clock() >= self._renew_at:
                await self._renew()
        return self._headers

    def reject(self, headers: Headers) -> bool:
        if headers != self._headers:
            return True  # another request has seen to it
        if self._clock() < self._asked_at + BETWEEN_TOKENS_S:
            return False
        self._renew_at = self._ends_at = float("-inf")
        return True

    async def _renew(self) -> None:
        """Asks for a token. One that is still good goes on being used when there is no answer."""
        now = self._clock()
        try:
            reply = await self._server.pool.request(
                b"POST",
                self._server.target("/auth/token"),
                (USER_AGENT, JSON_TYPE),
                self._body,
                timeout_s=TOKEN_TIMEOUT_S,
                max_body=MAX_TOKEN_BYTES,
            )
            self._keep(reply, now)
        except (TransportError, AnswerError) as exc:
            if now >= self._ends_at:
                raise unavailable(f"no token: {exc}") from exc
            self._renew_at = now + BETWEEN_TOKENS_S
        self._asked_at = now

    def _keep(self, reply: Reply, now: float) -> None:
        if reply.status in (404, 503):
            self._headers, self._renew_at, self._ends_at = (), now + NO_TOKEN_S, now + NO_TOKEN_S
            return
        document = decode(reply) if reply.status == 200 else None
        if not isinstance(document, dict):
            raise AnswerError(reply.status, reason(reply))
        token, ends = document.get("token"), document.get("exp")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise BrokenAnswerError(reply.status, "no token in it")
        life_s = TOKEN_LIFE_S
        if isinstance(ends, int | float):  # by the server's clock, which may differ from ours
            life_s = min(max(ends - self._wall_clock(), 2 * BETWEEN_TOKENS_S), TOKEN_LIFE_S)
        self._headers = ((b"authorization", b"Bearer " + token.encode()),)
        self._renew_at, self._ends_at = now + TOKEN_USED * life_s, now + life_s


def tokens_of(settings: RcrtBackendSettings, server: Server) -> Tokens:
    """The token of the settings, or else those that the server issues."""
    if settings.auth is not None:
        return FixedTokens(credentials_of(settings).headers("anonymous"))
    return IssuedTokens(
        server, owner_id=settings.owner_id, agent_id=settings.agent_id, clock=time.monotonic, wall_clock=time.time
    )


class RcrtClient:
    """One server's breadcrumbs. Everything raises TransportError, AnswerError or GatewayError (`FAILURES`)."""

    def __init__(
        self, server: Server, tokens: Tokens, checker: Checker, *, read_s: float, max_response_bytes: int
    ) -> None:
        self._server = server
        self._checker = checker
        self._tokens = tokens
        self._read_s = read_s
        self._max_response_bytes = max_response_bytes

    async def create(self, body: bytes, key: str, timeout_s: float, more: Headers) -> str:
        """Stores a breadcrumb under an `Idempotency-Key`; its id, empty if the server did not say.

        `more` are headers of this request alone.
        """
        headers = (JSON_TYPE, (b"idempotency-key", key.encode("ascii")), *more)
        reply = await self._send(b"POST", "/breadcrumbs", headers, body, timeout_s=timeout_s)
        document = await self._decode(reply)
        crumb_id = document.get("id") if isinstance(document, dict) else None
        return crumb_id if isinstance(crumb_id, str) else ""

    async def find(
        self, schema: str, tag: str, *, limit: int, offset: int = 0, context: bool = False, narrow: bool = False
    ) -> list[Json]:
        """The breadcrumbs of a schema with a tag, the last changed first. The list knows no tenants.

        `narrow`: raises WideAnswerError for an answer of very many values.
        """
        reply = await self.find_text(schema, tag, limit=limit, offset=offset, context=context)
        document = decode(reply) if narrow else await self._decode(reply)
        if not isinstance(document, list):
            raise BrokenAnswerError(reply.status, "not a list")
        return document

    async def find_text(self, schema: str, tag: str, *, limit: int, offset: int = 0, context: bool = False) -> Reply:
        """As `find`, before it is read."""
        query: dict[str, str | int] = {"schema_name": schema, "tag": tag, "limit": limit}
        if offset:
            query["offset"] = offset
        if context:
            query["include_context"] = "true"
        return await self._send(b"GET", f"/breadcrumbs?{urlencode(query)}", entries=limit if context else 1)

    async def read(self, crumb_id: str, *, narrow: bool = False) -> JsonObject | None:
        """The whole record; None when it is gone. Other views may be rewritten for language models.

        `narrow` as for `find`.
        """
        try:
            reply = await self._send(b"GET", f"/breadcrumbs/{crumb_id}/full")
        except AnswerError as exc:
            if exc.status == 404:
                return None
            raise
        document = decode(reply) if narrow else await self._decode(reply)
        return document if isinstance(document, dict) else None

    async def delete(self, crumb_id: str) -> None:
        await self._send(b"DELETE", f"/breadcrumbs/{crumb_id}")

    async def _decode(self, reply: Reply) -> Json:
        """As `decode`; what tools returned stays text (`msgspec.Raw`) in an answer of very many values."""
        check_type(reply)
        if not jsontext.is_wide(reply.body):
            return decode(reply)
        try:
            return await self._checker.read(reply.body, OUTPUTS, MAX_DEPTH, self._server.url, is_owed=True)
        except (OffloadError, jsontext.JsonError) as exc:
            raise BrokenAnswerError(reply.status, f"it cannot be read: {exc!r}") from exc

    async def _send(
        self,
        method: bytes,
        path: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        entries: int = 1,
    ) -> Reply:
        """Sends a request, and after a 401 once more with a new token: what was refused so has done nothing."""
        for _ in range(2):
            credentials = await self._tokens.headers()
            reply = await self._server.pool.request(
                method,
                self._server.target(path),
                (USER_AGENT, *credentials, *headers),
                body,
                timeout_s=timeout_s or self._read_s,
                max_body=entries * self._max_response_bytes,
            )
            if reply.status != 401 or not self._tokens.reject(credentials):
                break
        if reply.status != 200:
            # What a database says about a breadcrumb it refuses may quote it, arguments and all.
            quotable = not body or reply.status in (401, 403)
            raise AnswerError(reply.status, reason(reply) if quotable else "it was refused")
        return reply


def decode(reply: Reply) -> Json:
    """Reads the body of a 200. Raises BrokenAnswerError, or AnswerError if some proxy seems to have answered.

    WideAnswerError where reading it would hold up the event loop.
    """
    check_type(reply)
    if jsontext.is_wide(reply.body):
        raise WideAnswerError(reply.status, "it holds too many values")
    try:
        return jsontext.decode(reply.body, MAX_DEPTH)
    except jsontext.JsonError as exc:
        raise BrokenAnswerError(reply.status, f"not JSON: {exc}") from exc


def check_type(reply: Reply) -> None:
    """Raises AnswerError for what is not JSON."""
    if b"json" not in (reply.header(b"content-type") or b"").lower():
        raise AnswerError(reply.status, "its type is not JSON")


def reason(reply: Reply) -> str:
    """What a plain-text error says, fit for a log line."""
    return reply.body[: 4 * MAX_REASON].decode("utf-8", "replace")[:MAX_REASON].strip()
