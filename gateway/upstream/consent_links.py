"""Challenges of tool servers, which ask for a user's consent at a URL: which URLs are safe, and how they stand."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit

from gateway.core import jsontext
from gateway.core.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.core.model import JsonObject
from gateway.net.client import Origin, TransportError
from gateway.protocols.common.replies import NotOursError
from gateway.upstream.credentials import Credentials
from gateway.upstream.replica_url import USER_AGENT, Server, path_and_query

log = logging.getLogger("gateway.backends")

URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")  # RFC 3986, section 2: every character one may have
TIMEOUT_S = 5.0  # a caller waits for the status
MAX_BYTES = 64 * 1024
MAX_URL = 8 * 1024  # characters: what browsers and servers take
MAX_CHALLENGES = 100  # of one refusal, which is passed on whole or not at all
BUSY = (408, 429)
STATUSES = ("pending", "completed", "failed")


class UpstreamChallenges:
    """Those of one backend, whose replicas are `servers`."""

    def __init__(self, backend: str, servers: Sequence[Server], credentials: Credentials) -> None:
        self._backend = backend
        self._servers = servers
        self._credentials = credentials

    def completed(self, refusal: GatewayError, server: Server) -> GatewayError:
        """The refusal of a tool server with only its safe challenges; warns if it refused the gateway itself."""
        if isinstance(refusal, NotOursError):
            log.warning("a tool server does not accept our credential", extra={"backend": self._backend})
        elif refusal.missing is not None and "authorization" in refusal.missing:
            entries = refusal.missing["authorization"]
            if len(entries) > MAX_CHALLENGES:
                detail = f"it asks for {len(entries)} consents at once; a user gives at most {MAX_CHALLENGES}"
                return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail)
            challenges = [safe for entry in entries if (safe := self._checked(entry, server))]
            if not challenges:
                return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail="a challenge without a safe url")
            refusal.missing = dict(refusal.missing) | {"authorization": challenges}
        return refusal

    def _checked(self, challenge: JsonObject, server: Server) -> JsonObject | None:
        """A challenge whose `url` a browser may open, its `check_url` absolute and at an origin of this backend."""
        if not is_https_or_loopback(challenge["url"]):
            log.warning("a challenge's url is neither https nor loopback", extra={"backend": self._backend})
            return None
        if "check_url" not in challenge:
            return challenge
        check_url = absolute(server.url, challenge["check_url"])
        if self._server_of(check_url) is None:
            log.warning("a challenge's check_url is no URL of its tool server", extra={"backend": self._backend})
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": check_url}

    def _server_of(self, url: str) -> Server | None:
        """The replica that a URL leads to."""
        try:
            origin = Origin.parse(url)
        except ValueError:
            return None
        return next((server for server in self._servers if server.pool.origin == origin), None)

    async def status(self, check_url: str) -> str:
        """Asks how a challenge stands; `pending` when that is not known now, `failed` when it never will be."""
        headers = (USER_AGENT, *self._credentials("anonymous"))
        pool = (self._server_of(check_url) or self._servers[0]).pool
        try:
            reply = await pool.request(
                b"GET", path_and_query(check_url), headers, b"", timeout_s=TIMEOUT_S, max_body=MAX_BYTES
            )
            document = jsontext.decode(reply.body) if reply.status == 200 else None
        except (TransportError, UnicodeEncodeError, jsontext.JsonError):
            return "pending"
        if isinstance(document, dict) and document.get("status") in STATUSES:
            return str(document["status"])
        return "failed" if 400 <= reply.status < 500 and reply.status not in BUSY else "pending"


def is_https_or_loopback(url: str) -> bool:
    """Whether a user's browser may be sent there."""
    # `urlsplit` drops line breaks, and would not see what a browser sees
    if len(url) > MAX_URL or not URI.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # which has to be a number
        if not host or parts.scheme == "https":
            return bool(host)
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def absolute(base: str, url: str) -> str:
    """A URL that may be relative, made absolute; empty if it is no URL, and could never be asked."""
    try:
        return urljoin(base + "/", url) if len(url) <= MAX_URL and URI.fullmatch(url) else ""
    except ValueError:
        return ""
