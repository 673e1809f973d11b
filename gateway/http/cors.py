"""Lets pages of listed origins call from a browser (Fetch Standard, HTTP extensions: CORS).

It decides what browsers let pages read, not who may call: credentials do that, and a page without one gets its 401.
Starlette's CORSMiddleware answers requests of other origins with a 400 of its own, and replaces ASGI's `send`, without
which our server answers faster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.wire import Headers, WireReply

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


class Cors:
    """`headers` are names that callers may send besides the usual ones; a browser asks again after `max_age_s`."""

    def __init__(
        self, *, origins: Collection[str], headers: Iterable[str], credentials: bool, max_age_s: float
    ) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._any = ANY in origins
        self._shown: Headers = ((b"access-control-expose-headers", ", ".join(EXPOSED).encode()),)
        if credentials:
            self._shown += ((b"access-control-allow-credentials", b"true"),)
        self._preflight = WireReply(
            status=204,
            headers=(
                (b"access-control-allow-methods", METHODS),
                (b"access-control-allow-headers", ", ".join(sorted({*ASKED, *headers})).encode("ascii")),
                (b"access-control-max-age", b"%d" % max_age_s),
            ),
        )

    def preflight(self, method: str, headers: Mapping[bytes, bytes]) -> WireReply | None:
        """The answer to a browser that asks whether a page of a listed origin may send a request."""
        if method != "OPTIONS" or b"access-control-request-method" not in headers:
            return None
        return self._preflight if self._is_listed(headers.get(b"origin")) else None

    def with_origin(self, headers: Headers, origin: bytes | None) -> Headers:
        """The headers of any answer to a request from this origin; pages of listed ones may read it."""
        if self._is_listed(origin):
            headers = (*headers, (b"access-control-allow-origin", b"*" if self._any else origin or b""), *self._shown)
        if self._any:
            return headers
        # Answers differ by origin, also those without one, and no cache may mix them up.
        varying = [value for name, value in headers if name == b"vary"]
        others = [field for field in headers if field[0] != b"vary"]
        return (*others, (b"vary", b", ".join([*varying, b"Origin"])))

    def _is_listed(self, origin: bytes | None) -> bool:
        return origin is not None and (self._any or origin in self._origins)
