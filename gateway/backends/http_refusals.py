"""What a tool server refuses a call with: made fit for callers, and how the challenges in it stand."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from gateway import jsontext
from gateway.backends.credentials import Credentials
from gateway.backends.server import USER_AGENT, Server
from gateway.backends.urls import URI, is_https_or_loopback, joined, origin_of
from gateway.dialects.replies import NotOursError
from gateway.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.model import JsonObject
from gateway.transport import TransportError

log = logging.getLogger("gateway.backends")

TIMEOUT_S = 5.0  # somebody waits for a challenge's status
MAX_BYTES = 64 * 1024
BUSY = (408, 429)
STATUSES = ("pending", "completed", "failed")


class Refusals:
    """Those of one backend, whose replicas are `servers`."""

    def __init__(self, backend: str, servers: Sequence[Server], credentials: Credentials) -> None:
        self._backend = backend
        self._servers = servers
        self._credentials = credentials

    def completed(self, error: GatewayError, server: Server) -> GatewayError:
        """The refusal with challenges whose URLs we can stand for; warns if it is us who were refused."""
        if isinstance(error, NotOursError):
            log.warning("a tool server does not accept our credential", extra={"backend": self._backend})
        elif error.missing is not None and "authorization" in error.missing:
            challenges = [kept for one in error.missing["authorization"] if (kept := self._own(one, server))]
            if not challenges:
                return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail="a challenge without a safe url")
            error.missing = dict(error.missing) | {"authorization": challenges}
        return error

    def _own(self, challenge: JsonObject, server: Server) -> JsonObject | None:
        """A challenge whose `url` a browser may open, its `check_url` absolute and at an origin of this backend."""
        if not is_https_or_loopback(challenge["url"]):
            log.warning("a challenge's url is neither https nor loopback", extra={"backend": self._backend})
            return None
        if "check_url" not in challenge:
            return challenge
        said = challenge["check_url"]
        check_url = joined(server.url, said) if URI.fullmatch(said) else ""  # else it could never be asked
        if self._at(check_url) is None:
            log.warning("a challenge's check_url is no URL of its tool server", extra={"backend": self._backend})
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": check_url}

    def _at(self, url: str) -> Server | None:
        """Which replica a URL leads to."""
        origin = origin_of(url)
        return next((server for server in self._servers if origin_of(server.url) == origin), None)

    async def challenge_status(self, check_url: str) -> str:
        """Asks how a challenge stands; `pending` when it cannot be told now, `failed` when it never will."""
        parts = urlsplit(check_url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = (USER_AGENT, *self._credentials.headers("anonymous"))
        pool = (self._at(check_url) or self._servers[0]).pool
        try:
            reply = await pool.request(
                b"GET", target.encode("ascii"), headers, b"", timeout_s=TIMEOUT_S, max_body=MAX_BYTES
            )
            document = jsontext.decode(reply.body) if reply.status == 200 else None
        except (TransportError, UnicodeEncodeError, jsontext.JsonError):
            return "pending"
        if isinstance(document, dict) and document.get("status") in STATUSES:
            return str(document["status"])
        return "failed" if 400 <= reply.status < 500 and reply.status not in BUSY else "pending"
