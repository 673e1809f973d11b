"""Tokens of an authorization server for the gateway itself (OAuth 2.0 client credentials: RFC 6749, section 4.4).

One request for a token serves all callers. A token is renewed a minute before it ends, while it is still used; and
once after a tool server has refused it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Struct, field

from gateway.core.errors import RETRY_AFTER_S
from gateway.core.wire import Headers
from gateway.net.client import Kind, Limits, Origin, Pool, Proxy, Reply, StreamedReply, TransportError
from gateway.protocols.common.replies import retry_after_s
from gateway.upstream.proxies import proxy_for
from gateway.upstream.replica_url import NAMES_ORIGIN, USER_AGENT, path_and_query
from gateway.upstream.settings import ClientCredentialsSettings

log = logging.getLogger("gateway.backends")

FETCH_S = 8.0  # for one request, with connecting: `check` waits 10 s for a list, and is to say what that waits for
MAX_BYTES = 64 * 1024  # tokens have some KiB
EARLY_S = 60.0  # before its end a token is renewed, or after half of its life if that is shorter
ASSUMED_S = 300.0  # the life of a token that does not say (RFC 6749, section 5.1, recommends that it does)
LONGEST_S = 86_400.0
PAUSE_S = 5.0  # after a failure, and at least between a new token and one that replaces it because it was refused
LONGEST_PAUSE_S = 60.0  # that its `Retry-After` may ask for
BUSY = (408, 425, 429)  # statuses of an authorization server that may issue a token later, as are those from 500
TOKEN = re.compile(r"[!-~]{1,16384}")
# RFC 6749, section 5.2, and RFC 8707, section 2: what may be logged of a refusal.
CODES = {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
CODES |= {"invalid_scope", "invalid_target"}

AnyReply = TypeVar("AnyReply", bound=Reply | StreamedReply)


class _TokenResponse(Struct):
    token: str | None = field(name="access_token", default=None)
    kind: str = field(name="token_type", default="Bearer")
    life_s: float | None = field(name="expires_in", default=None)
    error: str = ""


class NoTokenError(TransportError):
    """There is no token, so nothing was sent; there may be one after `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        super().__init__(Kind.NO_TOKEN, reason, sent=False)
        self.retry_after_s = retry_after_s


class _NotIssuedError(Exception):
    """The authorization server issued no token; the text is for our log and quotes nothing of it."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class ClientCredentials:
    """The tokens of one backend. As `Credentials` it is the header with the current one, if there is one."""

    def __init__(
        self,
        backend: str,
        settings: ClientCredentialsSettings,
        clock: Callable[[], float] = monotonic,
        *,
        proxy: str | Proxy | None = None,
    ) -> None:
        """`proxy` is that of the backend."""
        self._backend = backend
        proxied = proxy_for(settings.proxy or proxy, settings.token_url)
        self._pool = Pool(Origin.parse(settings.token_url), Limits(connections=2), proxy=proxied)
        self._target = path_and_query(settings.token_url)
        self._headers, self._body = _request(settings)
        self._clock = clock
        self._token: Headers = ()
        self._issued_at = self._ask_at = -inf
        self._renew_at = self._ends_at = -inf
        self._failure = ""
        self._fetching: asyncio.Task[None] | None = None

    def __call__(self, principal: str) -> Headers:
        return self._token

    async def authorized(self, ask: Callable[[], Awaitable[AnyReply]], timeout_s: float) -> AnyReply:
        """Asks with a token, and after a 401 once more with a new one: what was refused so has done nothing.

        Waits `timeout_s` at most for a token. Raises TransportError, NoTokenError if there is none.
        """
        await self.ready(timeout_s)
        token = self._token
        reply = await ask()
        status = reply.status if isinstance(reply, Reply) else reply.head.status
        if status != 401 or not self._reject(token):
            return reply
        if isinstance(reply, StreamedReply):
            reply.close()
        await self.ready(timeout_s)
        return await ask()

    async def ready(self, timeout_s: float) -> None:
        """Returns once there is a token. Raises NoTokenError if there is none in time."""
        now = self._clock()
        if now < self._renew_at:
            return
        if now >= self._ask_at and self._fetching is None:
            self._ask_at = now + PAUSE_S
            self._fetching = asyncio.create_task(self._renew())
            self._fetching.add_done_callback(self._fetched)
        if now < self._ends_at:
            return  # the old one is good while the new one is fetched
        if self._fetching is not None:
            await asyncio.wait(
                [self._fetching], timeout=max(timeout_s, 0)
            )  # a caller that leaves does not end it for the others
        now = self._clock()
        if now >= self._ends_at:
            raise NoTokenError(self._failure or "not yet", max(self._ask_at - now, RETRY_AFTER_S))

    def _reject(self, token: Headers) -> bool:
        """Takes note of a 401. Whether asking again may help."""
        if token != self._token:
            return True  # another request has seen to it
        if self._clock() < self._issued_at + PAUSE_S:
            return False  # it was new
        self._token, self._ask_at = (), -inf
        self._renew_at = self._ends_at = -inf
        return True

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(FETCH_S):
                reply = await self._pool.request(
                    b"POST", self._target, self._headers, self._body, timeout_s=FETCH_S, max_body=MAX_BYTES
                )
            token, life_s = _read(reply)
        except (TransportError, TimeoutError, _NotIssuedError) as exc:
            self._note_failure(exc)
            return
        now = self._clock()
        self._token, self._failure = ((b"authorization", b"Bearer " + token.encode()),), ""
        self._issued_at, self._ends_at = now, now + life_s
        self._renew_at = now + max(life_s - EARLY_S, life_s / 2)
        self._ask_at = -inf

    def _note_failure(self, exc: Exception) -> None:
        """Logs why there is no token, once for as long as that is why; waits with the next attempt as it was asked."""
        reason = str(exc) or "no answer in time"
        if isinstance(exc, _NotIssuedError):
            self._ask_at = max(self._ask_at, self._clock() + min(exc.retry_after_s, LONGEST_PAUSE_S))
        else:
            reason = f"the authorization server is unavailable: {reason}"
        if not isinstance(exc, TransportError) or exc.kind not in NAMES_ORIGIN:
            reason += f" ({self._pool.origin})"
        if reason != self._failure:
            log.warning("no token for a tool server", extra={"backend": self._backend, "reason": reason})
        self._failure = reason

    def _fetched(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("asking for a token failed inside the gateway", exc_info=error)

    async def aclose(self) -> None:
        """Stops asking."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
        await self._pool.aclose()


def _request(settings: ClientCredentialsSettings) -> tuple[Headers, bytes]:
    """Header and body of a request for a token; the client authenticates as RFC 6749, section 2.3.1 says."""
    secret = settings.client_secret.get_secret_value()
    form = {
        "grant_type": "client_credentials",
        "scope": settings.scope,
        "resource": settings.resource,
        "audience": settings.audience,
        **settings.parameters,
    }
    headers: Headers = (
        USER_AGENT,
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"accept", b"application/json"),
    )
    if settings.client_auth == "body":
        form |= {"client_id": settings.client_id, "client_secret": secret}
    else:
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(secret)}"
        headers = (*headers, (b"authorization", b"Basic " + b64encode(pair.encode())))
    return headers, urlencode({name: value for name, value in form.items() if value is not None}).encode()


def _read(reply: Reply) -> tuple[str, float]:
    """The token in an answer, and for how many seconds it is good. Raises _NotIssuedError."""
    if reply.status in BUSY or reply.status >= 500:
        reason = f"the authorization server is unavailable: status {reply.status}"
        raise _NotIssuedError(reason, retry_after_s(reply) or 0.0)
    try:
        answer = msgspec.json.decode(reply.body, type=_TokenResponse, strict=False)  # some send "3600"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _NotIssuedError(f"status {reply.status}, and its body is no answer of OAuth") from exc
    if reply.status != 200:
        raise _NotIssuedError(f"status {reply.status}, error {answer.error if answer.error in CODES else 'unknown'}")
    if answer.token is None or TOKEN.fullmatch(answer.token) is None or answer.kind.lower() != "bearer":
        raise _NotIssuedError("the answer holds no bearer token")
    life_s = ASSUMED_S if answer.life_s is None else answer.life_s
    if not life_s > 0:
        raise _NotIssuedError("the token has ended already")
    return answer.token, min(life_s, LONGEST_S)
