"""Fetches what issuers publish: key sets (RFC 7517), and where they are (OpenID Connect Discovery 1.0, section 4).

Only from https URLs, or from this machine; redirects are not followed; bodies are bounded and must not be compressed.
"""

from __future__ import annotations

import ipaddress

from gateway import __version__, jsontext
from gateway.model import Json, JsonObject
from gateway.transport import Fetcher, Origin, TransportError

TIMEOUT_S = 5.0
MAX_BYTES = 1024 * 1024  # key sets have some KiB, with chains of certificates some tens
WELL_KNOWN = "/.well-known/openid-configuration"
# Compressed, a MiB on the wire could be a GiB in memory.
HEADERS = (
    (b"accept", b"application/json"),
    (b"accept-encoding", b"identity"),
    (b"user-agent", b"toolgate/" + __version__.encode()),
)


class UnavailableError(Exception):
    """Keys that could not be had; the text is for our log."""


class IssuerClient:
    """Asks issuers, over a connection of its own for each request."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def key_set(self, url: str) -> Json:
        """The JWK set at a URL. Raises UnavailableError."""
        return await self._get(url)

    async def discovered_key_set(self, issuer: str) -> Json:
        """The JWK set of an issuer that says itself where it is. Raises UnavailableError."""
        document = await self._get(issuer.rstrip("/") + WELL_KNOWN)
        if document.get("issuer") != issuer:
            raise UnavailableError("its discovery document is that of another issuer")
        url = document.get("jwks_uri")
        # An issuer elsewhere has nothing to say about what runs beside us.
        if not isinstance(url, str) or not _is_safe(url, loopback=not issuer.startswith("https:")):
            raise UnavailableError("its discovery document names no jwks_uri with https")
        return await self._get(url)

    async def _get(self, url: str) -> JsonObject:
        try:
            reply = await self._fetcher.request(b"GET", url, HEADERS, timeout_s=TIMEOUT_S, max_body=MAX_BYTES)
        except TransportError as exc:
            raise UnavailableError(f"{exc.kind}: {exc}") from exc
        except ValueError as exc:
            raise UnavailableError(f"its URL cannot be used: {exc}") from exc
        if reply.status != 200:
            raise UnavailableError(f"status {reply.status}")
        if (reply.header(b"content-encoding") or b"identity").lower() != b"identity":
            raise UnavailableError("the answer is compressed")
        try:
            document = jsontext.decode(reply.body)
        except jsontext.JsonError as exc:
            raise UnavailableError(f"the answer is no JSON: {exc}") from exc
        if not isinstance(document, dict):
            raise UnavailableError("the answer is no JSON object")
        return document


def _is_safe(url: str, *, loopback: bool) -> bool:
    """Whether keys may be fetched there: with https, or if `loopback` is allowed without, on this machine."""
    try:
        origin = Origin.parse(url)
        return origin.is_tls or (loopback and _is_loopback(origin.host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback
