"""Which hosts requests may be for, and from pages of which origins browsers may send them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from gateway.configfile.web import ORIGIN
from gateway.core.errors import ErrorCode, FixedError
from gateway.core.wire import Headers, WireReply
from gateway.settings import ServerSettings
from gateway.settings.server import EVERYWHERE, CorsSettings

ANY = "*"
HTTP_ORIGIN = re.compile(ORIGIN)
ALLOW_ORIGIN = b"access-control-allow-origin"
METHODS = b"GET, POST, DELETE"
# What callers may send besides what browsers always let through (Accept, Accept-Language).
SENDABLE = (
    *("authorization", "content-type", "if-none-match", "otc-api-key", "oxp-api-key", "oxp-version", "prefer"),
    *("idempotency-key", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
    *("traceparent", "tracestate", "x-request-id"),
)
# What callers may read besides what browsers always show (Cache-Control, Content-Length, Content-Type).
READABLE = (
    *(
        "ETag",
        "Location",
        "Mcp-Session-Id",
        "OXP-Version",
        "Preference-Applied",
        "RateLimit",
        "RateLimit-Policy",
        "Retry-After",
    ),
    *("Toolgate-Call-Id", "Toolgate-Code", "Toolgate-Reason", "WWW-Authenticate", "X-Request-ID"),
)


class OtherHostError(FixedError):
    """A request for a host that is not served here."""

    code = ErrorCode.INVALID_REQUEST
    message = "The Host header does not name a host that is served here."
    reason = "other_host"

    def __init__(self) -> None:
        pass


class AllowedHosts:
    """Which hosts a request may be for: a page may have had its own name lead here, a proxy may have mixed names up.

    `names` are hosts, addresses, or `*.` and what all hosts of a domain end in. Starlette's TrustedHostMiddleware
    answers in plain text, in no dialect and without a code, also probes of `/health`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        hosts = [host_of(name) for name in names]
        self._exact = frozenset(name.encode("ascii") for name in hosts if not name.startswith("*."))
        self._endings = tuple(name[1:].encode("ascii") for name in hosts if name.startswith("*."))

    def allows(self, header: bytes) -> bool:
        """Whether a Host header, empty if there is none, names one of them."""
        if header in self._exact:  # nearly always
            return True
        host = host_of(header.decode("latin-1")).encode("latin-1")
        return host in self._exact or (bool(self._endings) and host.endswith(self._endings))


def allowed_hosts(server: ServerSettings) -> AllowedHosts | None:
    """The hosts of the configuration; the links we hand out must lead to us, so theirs are among them."""
    if not server.allowed_hosts:
        return None
    handed_out = [url for url in (server.public_url, server.callback_url) if url is not None]
    hosts = {*server.allowed_hosts, *(urlsplit(url).hostname or "" for url in handed_out)}
    if server.public_url is None:
        hosts.update(host for host in server.hosts if host not in EVERYWHERE)
    return AllowedHosts(hosts)


def host_of(authority: str) -> str:
    """The host of `host:port` in the form in which hosts are compared; an IPv6 address without brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    if authority.count(":") > 1:  # an IPv6 address as a configuration writes it
        return authority.lower()
    return authority.partition(":")[0].rstrip(".").lower()


def is_address(host: str) -> bool:
    """Whether a host is an IP address or localhost, which no other site can have as its name."""
    if host == "localhost":
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


class PageOrigins:
    """Origins whose pages may call, whatever their credential: ours, this machine's, and those of `cors`.

    A page that has its own name lead here (DNS rebinding) sends that name as its origin; no address and no name of ours
    can be such a one. Programs send no origin.
    """

    def __init__(self, server: ServerSettings, public_url: Callable[[], str]) -> None:
        self._cors_origins = frozenset(() if server.cors is None else server.cors.origins)
        self._hosts = AllowedHosts(server.allowed_hosts)
        self._public_url = public_url

    def allows(self, header: bytes) -> bool:
        """Whether an Origin header names one of them."""
        origin = header.decode("latin-1").lower()
        if ANY in self._cors_origins or origin in self._cors_origins:
            return True
        match = HTTP_ORIGIN.fullmatch(origin)
        if match is None:
            return False
        host = match[1]
        if is_address(host) or host.endswith(".localhost"):  # which browsers ask nobody for (RFC 6761, section 6.3)
            return True
        return origin == self._own() or self._hosts.allows(host.encode("latin-1"))

    def _own(self) -> str:
        """Our own origin, as browsers write it: without a default port (RFC 6454, section 6.2)."""
        parts = urlsplit(self._public_url().lower())
        default = ":443" if parts.scheme == "https" else ":80"
        return f"{parts.scheme}://{parts.netloc.removesuffix(default)}"


class Cors:
    """Lets pages of listed origins call from a browser (Fetch Standard, HTTP extensions: CORS).

    It decides what browsers let pages read, not who may call: credentials do that, and a page without one gets its 401.
    `headers` are names that callers may send besides the usual ones. Starlette's CORSMiddleware answers requests of
    other origins with a 400 of its own, and replaces ASGI's `send`, without which our server answers faster.
    """

    def __init__(self, settings: CorsSettings, headers: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in settings.origins)
        self._any = ANY in settings.origins
        self._exposed_fields: Headers = ((b"access-control-expose-headers", ", ".join(READABLE).encode()),)
        if settings.credentials:
            self._exposed_fields += ((b"access-control-allow-credentials", b"true"),)
        self._preflight = WireReply(
            status=204,
            headers=(
                (b"access-control-allow-methods", METHODS),
                (b"access-control-allow-headers", ", ".join(sorted({*SENDABLE, *headers})).encode("ascii")),
                (b"access-control-max-age", b"%d" % settings.max_age_s),
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
            headers = (*headers, (ALLOW_ORIGIN, b"*" if self._any else origin or b""), *self._exposed_fields)
        if self._any:
            return headers
        # Answers differ by origin, also those without one, and no cache may mix them up.
        varying = [value for name, value in headers if name == b"vary"]
        others = [field for field in headers if field[0] != b"vary"]
        return (*others, (b"vary", b", ".join([*varying, b"Origin"])))

    def _is_listed(self, origin: bytes | None) -> bool:
        return origin is not None and (self._any or origin in self._origins)
