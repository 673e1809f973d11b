"""Lets pages of listed origins call from a browser (Fetch Standard, HTTP extensions: CORS). Pure ASGI.

It decides what browsers let pages read, not who may call: credentials do that, and a page without one gets its 401.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.instrumentation import route_of
from gateway.http.observer import Observer
from gateway.server_extension import ANSWER

ANY = "*"
METHODS = b"GET, POST, DELETE"
# What callers may send besides what browsers always let through (Accept, Accept-Language).
ASKED = (
    *("authorization", "content-type", "if-none-match", "otc-api-key", "oxp-api-key", "oxp-version", "prefer"),
    *("traceparent", "tracestate", "x-request-id"),
)
# What callers may read besides what browsers always show (Cache-Control, Content-Length, Content-Type).
EXPOSED = (
    *("ETag", "Location", "OXP-Version", "Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After"),
    *("Toolgate-Call-Id", "Toolgate-Code", "WWW-Authenticate", "X-Request-ID"),
)

Fields = list[tuple[bytes, bytes]]


class Cors:
    """Answers preflight requests of listed origins, and shows answers to them. Others get what they got without it.

    `headers` are names callers may send besides the usual ones, `max_age_s` is how long a browser need not ask again.
    `observer` hears of preflight requests, `ip_of` tells their caller's address; all others are noted by the
    application.
    """

    def __init__(
        self,
        app: ASGIApp,
        observer: Observer,
        ip_of: Callable[[Scope], str],
        *,
        origins: Collection[str],
        headers: Iterable[str],
        credentials: bool,
        max_age_s: float,
    ) -> None:
        self._app = app
        self._observer = observer
        self._ip_of = ip_of
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._any = ANY in origins
        self._common: Fields = [(b"access-control-allow-credentials", b"true")] if credentials else []
        self._shown = (b"access-control-expose-headers", ", ".join(EXPOSED).encode())
        self._preflight = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", ", ".join(sorted({*ASKED, *headers})).encode("ascii")),
            (b"access-control-max-age", b"%d" % max_age_s),
            (b"content-length", b"0"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        asked = dict(scope["headers"])
        allowed = self._allowed(asked.get(b"origin"))
        if allowed and scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
            start = {
                "type": "http.response.start",
                "status": 204,
                "headers": self._tell([], [*allowed, *self._preflight]),
            }
            route = route_of("OPTIONS", scope["path"])[1]
            self._observer.turned_away(204, "", self._ip_of(scope), "preflight", route)
            await send(start)
            return await send({"type": "http.response.body", "body": b""})

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [*allowed, self._shown] if allowed else []
                message = {**message, "headers": self._tell(message.get("headers", ()), more)}
            await send(message)

        scope.get("extensions", {}).pop(ANSWER, None)
        return await self._app(scope, receive, tell)

    def _allowed(self, origin: bytes | None) -> Fields:
        """The headers that let the origin read on; none for one that is not listed."""
        if origin is None or not (self._any or origin in self._origins):
            return []
        return [(b"access-control-allow-origin", b"*" if self._any else origin), *self._common]

    def _tell(self, headers: Iterable[tuple[bytes, bytes]], more: Fields) -> Fields:
        """Adds `more`. Answers differ by origin, also those without one, and no cache may mix them up."""
        if self._any:
            return [*headers, *more]
        varying = [value for name, value in headers if name == b"vary"]
        others = [field for field in headers if field[0] != b"vary"]
        return [*others, *more, (b"vary", b", ".join([*varying, b"Origin"]))]
