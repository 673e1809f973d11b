"""Where requests go: the origin of a URL (RFC 6454, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """`scheme` is http or https; `host` a lower-case name or an address, an IPv6 one without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> Self:
        """Takes the origin of an absolute URL; path and query are left out. Raises ValueError."""
        # urlsplit silently removes tabs and line ends, and strips: a URL with them is not what it looks like.
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("a URL holds printable ASCII characters only; write other host names in their xn-- form")
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError("a URL starts with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL here must not hold a user name or password")
        if not parts.hostname:
            raise ValueError("a URL needs a host")
        port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
        if port == 0:
            raise ValueError("a port lies between 1 and 65535")
        return cls(parts.scheme, parts.hostname, port)

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> bytes:
        """What the Host field says: brackets around IPv6, the port unless it is the scheme's own (RFC 9110, 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}").encode("ascii")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority.decode('ascii')}"
