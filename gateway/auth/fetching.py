"""Fetches what issuers publish: key sets (RFC 7517), and where they are (OpenID Connect Discovery 1.0, section 4).

Only from https URLs, or from this machine; redirects are not followed; bodies are bounded and must not be compressed.
"""

from __future__ import annotations

import ipaddress
import ssl
from functools import cache

from gateway import __version__, jsontext
from gateway.model import Json, JsonObject
from gateway.transport import Origin

MAX_BYTES = 1024 * 1024  # key sets have some KiB, with chains of certificates some tens
WELL_KNOWN = "/.well-known/openid-configuration"
# Compressed, a MiB on the wire could be a GiB in memory.
HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"toolgate/{__version__}"}


class UnavailableError(Exception):
    """Keys that could not be had; the text is for our log."""


async def key_set(url: str) -> Json:
    """The JWK set at a URL. Raises UnavailableError."""
    return await _get(url)


async def discovered_key_set(issuer: str) -> Json:
    """The JWK set of an issuer that says itself where it is. Raises UnavailableError."""
    document = await _get(issuer.rstrip("/") + WELL_KNOWN)
    if document.get("issuer") != issuer:
        raise UnavailableError("its discovery document is that of another issuer")
    url = document.get("jwks_uri")
    # An issuer elsewhere has nothing to say about what runs beside us.
    if not isinstance(url, str) or not _is_safe(url, loopback=not issuer.startswith("https:")):
        raise UnavailableError("its discovery document names no jwks_uri with https")
    return await _get(url)


async def _get(url: str) -> JsonObject:
    """A JSON object, over a connection of its own. The caller sets the deadline. Raises UnavailableError."""
    import httpx  # takes 5 MB and 70 ms, which only gateways with such issuers pay

    body = bytearray()
    try:
        async with (
            httpx.AsyncClient(verify=_trusted(), trust_env=False, timeout=None) as client,  # noqa: S113 - the caller's
            client.stream("GET", url, headers=HEADERS, follow_redirects=False) as response,
        ):
            if response.status_code != 200:
                raise UnavailableError(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise UnavailableError("the answer is compressed")
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise UnavailableError(f"the answer is larger than {MAX_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise UnavailableError(f"{type(exc).__name__}: {exc}") from exc
    try:
        document = jsontext.decode(bytes(body))
    except jsontext.JsonError as exc:
        raise UnavailableError(f"the answer is no JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise UnavailableError("the answer is no JSON object")
    return document


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities that the system trusts, or those of SSL_CERT_FILE. To read them takes some 70 ms."""
    return ssl.create_default_context()


def _is_safe(url: str, *, loopback: bool) -> bool:
    """Whether keys may be fetched there: with https, or if `loopback` is allowed without, on this machine."""
    try:
        origin = Origin.parse(url)
        return origin.is_tls or (loopback and _is_loopback(origin.host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback
