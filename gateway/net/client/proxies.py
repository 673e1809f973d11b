"""Forward proxies: which one a request goes through, and what it is told (RFC 9110, sections 7.6 and 9.3.6).

A target with https is reached through a tunnel (CONNECT): the proxy sees neither requests nor answers. A request
to a target with http is sent to the proxy itself, with the whole URL in its first line (RFC 9112, section 3.2.2).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from gateway.net.client.errors import Kind, TransportError
from gateway.net.client.origin import Origin

DEFAULT_PORT = 80  # of a URL with http
MAX_HEAD_BYTES = 16 * 1024  # of the answer to CONNECT
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
HEAD_END = b"\r\n\r\n"
# In the order in which they count: curl, and what follows it, look at the lower-case name first.
OF_HTTP, OF_HTTPS = ("http_proxy", "HTTP_PROXY"), ("https_proxy", "HTTPS_PROXY")
OF_ALL, OF_NONE = ("all_proxy", "ALL_PROXY"), ("no_proxy", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that is spoken to over http. Shown without its password."""

    host: str  # an IPv6 address without brackets
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Reads `http://user:password@host:port`. Raises ValueError."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http":
            raise ValueError("must begin with http://, as most proxies do, also those for https")
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment or not url.isprintable():
            raise ValueError("must be the URL of a proxy, such as http://proxy.example:3128")
        port = parts.port if parts.port is not None else DEFAULT_PORT
        if port == 0:
            raise ValueError("has a port that is not between 1 and 65535")
        return cls(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))

    @property
    def url(self) -> str:
        """It with its password, for libraries."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user else ""
        return f"http://{login}{_bracketed(self.host)}:{self.port}"

    @property
    def credential(self) -> tuple[tuple[bytes, bytes], ...]:
        """The header with user and password (RFC 7617), if there are any."""
        if not self.user:
            return ()
        pair = b64encode(f"{self.user}:{self.password}".encode())
        return ((b"proxy-authorization", b"Basic " + pair),)

    def __str__(self) -> str:
        return f"http://{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy is used for a target, by its scheme; none for those in `exempt`, which is as `NO_PROXY`."""

    http: Proxy | None = None
    https: Proxy | None = None
    exempt: tuple[str, ...] = ()

    @classmethod
    def everywhere(cls, proxy: Proxy) -> Self:
        """One proxy for all targets."""
        return cls(proxy, proxy)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`. Raises ValueError, which names the variable."""
        fallback = _parsed(environment, OF_ALL)
        exempt = next((environment[name] for name in OF_NONE if environment.get(name)), "")
        return cls(
            _parsed(environment, OF_HTTP) or fallback,
            _parsed(environment, OF_HTTPS) or fallback,
            tuple(entry for entry in re.split(r"[\s,]+", exempt.lower()) if entry),
        )

    def of(self, origin: Origin) -> Proxy | None:
        """The proxy for a target; None: it is reached directly."""
        proxy = self.https if origin.is_tls else self.http
        if proxy is None or any(_matches(entry, origin) for entry in self.exempt):
            return None
        return proxy


def _parsed(environment: Mapping[str, str], names: tuple[str, ...]) -> Proxy | None:
    for name in names:
        if url := environment.get(name, "").strip():
            try:
                return Proxy.parse(url)
            except ValueError as exc:
                raise ValueError(f"{name} {exc}") from None
    return None


def _matches(entry: str, origin: Origin) -> bool:
    """Whether an entry of NO_PROXY names a target: `*`, a host and all below it, an address, a network; with a port."""
    if entry == "*":
        return True
    host, port = _split(entry)
    if port is not None and port != origin.port:
        return False
    try:
        address = ipaddress.ip_address(origin.host)
    except ValueError:
        name = host.removeprefix("*").strip(".")
        target = origin.host.rstrip(".")
        return bool(name) and (target == name or target.endswith(f".{name}"))
    try:
        return address in ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False


def _split(entry: str) -> tuple[str, int | None]:
    """Host and port of an entry; an IPv6 address with a port has brackets."""
    match = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*)):([0-9]{1,5})", entry)
    if match is None:
        return entry.strip("[]"), None
    return match[1] if match[1] is not None else match[2], int(match[3])


async def open_tunnel(sock: socket.socket, proxy: Proxy, origin: Origin) -> None:
    """Has a proxy connect a socket with a target; what is sent from then on goes there.

    Nothing but that request has been sent if it fails. Raises TransportError, OSError.
    """
    loop = asyncio.get_running_loop()
    authority = f"{_bracketed(origin.host)}:{origin.port}".encode("ascii")
    fields = b"".join(b"%b: %b\r\n" % pair for pair in proxy.credential)
    await loop.sock_sendall(sock, b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (authority, authority, fields))
    head = b""
    while HEAD_END not in head:
        more = await loop.sock_recv(sock, MAX_HEAD_BYTES)
        head += more
        if not more or len(head) > MAX_HEAD_BYTES:
            raise _refused(proxy, origin, "hung up" if not more else "gave a broken answer")
    status = STATUS.match(head)
    if status is None:
        raise _refused(proxy, origin, "gave a broken answer")
    if not status[1].startswith(b"2"):
        raise _refused(proxy, origin, f"said {status[1].decode()}")
    if not head.endswith(HEAD_END):  # a server of TLS never speaks first: this would be taken for its words
        raise _refused(proxy, origin, "sent more than an answer")


def refused_by(proxy: Proxy, origin: Origin) -> TransportError:
    """For a request to a target with http that the proxy answered with 407: it was not passed on."""
    return _refused(proxy, origin, "said 407")


def _refused(proxy: Proxy, origin: Origin, what: str) -> TransportError:
    message = f"{origin} cannot be reached through the proxy {proxy}, which {what}."
    return TransportError(Kind.CONNECT, message, sent=False)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
