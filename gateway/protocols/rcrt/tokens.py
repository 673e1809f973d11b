"""The token of requests to an RCRT server: that of the settings, or one from the server's `POST /auth/token`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

from gateway.core import jsontext
from gateway.core.errors import RETRY_AFTER_S, GatewayError, unavailable
from gateway.core.wire import Headers
from gateway.net.client import Reply, TransportError
from gateway.protocols.common.fields import JSON_TYPE
from gateway.protocols.common.replies import retry_after_s
from gateway.protocols.rcrt.answers import AnswerError, BrokenAnswerError, decode, reason
from gateway.protocols.rcrt.settings import RcrtBackendSettings
from gateway.upstream.credentials import credentials_of
from gateway.upstream.replica_url import USER_AGENT, Server

ROLES = ["emitter", "subscriber"]  # to create and to listen; reading takes none
TOKEN_LIFE_S = 3600.0  # what we ask for, the server's own default
TOKEN_USED = 0.8  # of its life; the rest is room for a server that cannot be reached for a while
NO_TOKEN_S = 60.0  # how long a server that issues none is not asked again
UNISSUED = (404, 503)  # of a server without tokens, or without a key to sign them; or of a proxy in front of it
BETWEEN_TOKENS_S = 1.0  # a token refused sooner than that will not be followed by a better one
TOKEN_TIMEOUT_S = 5.0  # calls wait for it
MAX_TOKEN_BYTES = 64 * 1024


class RcrtTokens:
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
