"""URLs that tool servers name: what may be opened, and where they lead."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urljoin, urlsplit

URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")  # RFC 3986, section 2: every character one may have


def joined(base: str, url: str) -> str:
    """A URL that may be relative, made absolute; empty if it is none."""
    try:
        return urljoin(base + "/", url)
    except ValueError:
        return ""


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of whatever claims to be a URL, for comparing."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ("", None, None)
    return parts.scheme, parts.hostname, port


def is_https_or_loopback(url: str) -> bool:
    """Whether a user's browser may be sent there."""
    if not URI.fullmatch(url):  # `urlsplit` drops line breaks, and would not see what a browser sees
        return False
    scheme, host, _ = origin_of(url)
    return (scheme == "https" and bool(host)) or (scheme == "http" and host is not None and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
