"""Breadcrumbs over HTTP: create, find, read, delete, and the token that each of these takes.

RCRT's server of November 2025: success is 200, errors are plain text, tokens come from `POST /auth/token`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from urllib.parse import urlencode

from gateway import jsontext
from gateway.backends.credentials import credentials_of
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects.fields import JSON_TYPE
from gateway.dialects.rcrt import MAX_DEPTH, OWN_TAG, REQUEST_SCHEMAS, Crumb, decode_crumb
from gateway.dialects.replies import retry_after_s
from gateway.errors import RETRY_AFTER_S, GatewayError, unavailable
from gateway.model import Json, JsonObject
from gateway.offload import Checker, OffloadError
from gateway.settings import RcrtBackendSettings
from gateway.transport import Reply, TransportError
from gateway.wire import Headers

ROLES = ["emitter", "subscriber"]  # to create and to listen; reading takes none
TOKEN_LIFE_S = 3600.0  # what we ask for, the server's own default
TOKEN_USED = 0.8  # of its life; the rest is room for a server that cannot be reached for a while
NO_TOKEN_S = 60.0  # how long a server that issues none is not asked again
UNISSUED = (404, 503)  # of a server without tokens, or without a key to sign them; or of a proxy in front of it
BETWEEN_TOKENS_S = 1.0  # a token refused sooner than that will not be followed by a better one
TOKEN_TIMEOUT_S = 5.0  # calls wait for it
MAX_TOKEN_BYTES = 64 * 1024
OUTPUTS = (b"output", b"result")  # members of a breadcrumb's context that hold what a tool returned
MAX_REASON = 200  # characters of a plain-text error that go to our log


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long an RCRT backend waits for what, in seconds. Of two values, pauses grow from the first to the second."""

    create_s: float = 10.0  # it takes milliseconds; a server that takes longer is asked what became of the request
    # Before each further look for a request that may not have been stored; all four take 4 s. A loaded server, or one
    # behind a proxy, stores what it was sent within some seconds or never.
    look_s: tuple[float, float] = (0.25, 2.0)
    looks: int = 4
    read_s: float = 10.0  # lists and records; only background tasks wait for them
    stream_open_s: float = 2.0  # a call waits for the first attempt to open the stream, then goes out without
    idle_s: float = 17.0  # the server pings every 5 s: three of them missed, and some room
    canary_s: float = 5.0  # our own request comes back as an event in some milliseconds, unless the stream is deaf
    backoff_s: float = 0.5  # before the first three reconnects, doubling; they follow an ordinary restart
    reconnect_s: float = 30.0  # later: each connection costs the server a thread for ever, of the 512 it has
    calm_s: float = 60.0  # after a stream that lasted as long, the quick reconnects start again
    poll_s: tuple[float, float] = (1.0, 5.0)  # between two polls for one call without a stream
    insurance_s: tuple[float, float] = (5.0, 60.0)  # and beside one
    untagged_s: float = 10.0  # between two looks at all responses without a tag, which only an unknown tool gets
    watch_s: float = 24 * 3600.0  # the outcome of a call is looked for as long as a call is kept while it is not over
    request_ttl_s: float = 3600.0  # a request breadcrumb is kept; a runner acts on it at once or never
    seen_s: float = 30.0  # a tool seen in the workspace is taken to be there
    change_s: float = 1.0  # changes of tools come in bursts; one listing answers a whole one
    workflow_s: float = (
        360.0  # a workflow is stopped after 300 s; then the place of one whose response was lost is free
    )


class AnswerError(Exception):
    """An answer that is not the 200 that was hoped for; the text is for our log."""

    def __init__(self, status: int, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"status {status}: {reason}")
        self.status = status
        self.retry_after_s = retry_after_s


class BrokenAnswerError(AnswerError):
    """A 200 from the server itself that nothing can be made of."""


class WideAnswerError(BrokenAnswerError):
    """An answer that would take too long to read."""


FAILURES = (TransportError, AnswerError, GatewayError)  # all that a request may end in, besides an answer


class Tokens:
    """What requests are authenticated with: the token of the settings, or else those of the server's own endpoint.

    None while the server issues none, as with its authentication switched off.
    """

    def __init__(
        self,
        settings: RcrtBackendSettings,
        server: Server,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        identity = {"owner_id": settings.owner_id, "agent_id": settings.agent_id}
        self._body = jsontext.encode(identity | {"roles": ROLES, "ttl_sec": int(TOKEN_LIFE_S)})
        self._clock = clock
        self._wall_clock = wall_clock
        self._headers = credentials_of(settings)("anonymous")
        self._unissued: AnswerError | None = None  # the answer of a server that issued none
        begin = -inf if settings.auth is None else inf  # the token of the settings is never renewed
        self._asked_at = self._renew_at = self._ends_at = begin
        self._asking = asyncio.Lock()

    async def headers(self) -> Headers:
        """Raises GatewayError (BACKEND_UNAVAILABLE) when there are none to be had."""
        if self._clock() < self._renew_at:
            return self._headers
        async with self._asking:
            if self._clock() >= self._renew_at:
                await self._renew()
        return self._headers

    def reject(self, headers: Headers) -> bool:
        """Takes note of a 401. Returns whether asking for headers again may help."""
        if headers != self._headers:
            return True  # another request has seen to it
        if self._clock() < self._asked_at + BETWEEN_TOKENS_S:
            return False
        self._renew_at = self._ends_at = -inf
        return True

    def check_issued(self, headers: Headers) -> None:
        """Raises BACKEND_UNAVAILABLE if these headers, which were answered with 401, lack a token for want of one."""
        if not headers and self._unissued is not None:
            raise self._no_token(self._unissued)

    def _no_token(self, why: TransportError | AnswerError) -> GatewayError:
        retry_after_s = why.retry_after_s if isinstance(why, AnswerError) else None
        return unavailable(f"no token from {self._server.url}/auth/token: {why}", retry_after_s or RETRY_AFTER_S)

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
                raise self._no_token(exc) from exc
            self._renew_at = now + BETWEEN_TOKENS_S
        self._asked_at = now

    def _keep(self, reply: Reply, now: float) -> None:
        """Takes the token in an answer. Raises AnswerError if there is none and there should be."""
        refusal = AnswerError(reply.status, reason(reply), retry_after_s(reply))
        if reply.status in UNISSUED and now >= self._ends_at:
            self._unissued = refusal
            self._headers, self._renew_at, self._ends_at = (), now + NO_TOKEN_S, now + NO_TOKEN_S
            return
        document = decode(reply) if reply.status == 200 else None
        if not isinstance(document, dict):
            raise refusal
        token, ends = document.get("token"), document.get("exp")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise BrokenAnswerError(reply.status, "no token in it")
        life_s = TOKEN_LIFE_S
        if isinstance(ends, int | float):  # by the server's clock, which may differ from ours
            life_s = min(max(ends - self._wall_clock(), 2 * BETWEEN_TOKENS_S), TOKEN_LIFE_S)
        self._headers, self._unissued = ((b"authorization", b"Bearer " + token.encode()),), None
        self._renew_at, self._ends_at = now + TOKEN_USED * life_s, now + life_s


class RcrtClient:
    """One server's breadcrumbs. Everything raises TransportError, AnswerError or GatewayError (`FAILURES`)."""

    def __init__(
        self, name: str, settings: RcrtBackendSettings, server: Server, checker: Checker, timings: Timings
    ) -> None:
        self.name = name
        self.server = server
        self.timings = timings
        self.tokens = Tokens(settings, server)
        self.max_response_bytes = settings.max_response_bytes
        self._checker = checker
        self._request_schema = REQUEST_SCHEMAS[settings.request_schema]

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
    ) -> list[Crumb | None]:
        """The breadcrumbs of a schema with a tag, the last changed first; None for what is none of them.

        The list knows no tenants. `narrow`: raises WideAnswerError for an answer of very many values.
        """
        reply = await self.find_text(schema, tag, limit=limit, offset=offset, context=context)
        document = decode(reply) if narrow else await self._decode(reply)
        if not isinstance(document, list):
            raise BrokenAnswerError(reply.status, "not a list")
        return [decode_crumb(entry) for entry in document]

    async def find_request(self, request_id: str) -> str | None:
        """The id of a request's breadcrumb by its tag, which is ours alone."""
        found = await self.find(self._request_schema, OWN_TAG + request_id, limit=1)
        return next((crumb.id for crumb in found if crumb is not None), None)

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
            return await self._checker.read(reply.body, OUTPUTS, MAX_DEPTH, self.server.url, is_owed=True)
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
            credentials = await self.tokens.headers()
            reply = await self.server.pool.request(
                method,
                self.server.target(path),
                (USER_AGENT, *credentials, *headers),
                body,
                timeout_s=timeout_s or self.timings.read_s,
                max_body=entries * self.max_response_bytes,
            )
            if reply.status != 401 or not self.tokens.reject(credentials):
                break
        if reply.status == 401:
            self.tokens.check_issued(credentials)
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
    return " ".join(reply.body[: 4 * MAX_REASON].decode("utf-8", "replace").split())[:MAX_REASON]
