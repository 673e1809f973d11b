"""The caller's address: that of the peer or, behind trusted proxies, the one they report.

A proxy appends the address of its own peer to X-Forwarded-For (or to Forwarded, RFC 7239). So the list is read from
its right end while the proxies that wrote it are trusted; anything further left may be forged. Uvicorn's
ProxyHeadersMiddleware reads neither Forwarded nor two headers that contradict each other.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.types import Scope

from gateway.settings import ServerSettings

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

MAX_HOPS = 32  # proxies one behind the other; real chains have three
CACHED = 4096  # callers whose address is known without looking again, some 1 MB
MAX_CACHED_BYTES = 256  # of a header; longer ones are parsed each time, so that strangers cannot fill the memory
MAX_NODE = 64  # characters of one address with brackets and port

XFF, FORWARDED = b"x-forwarded-for", b"forwarded"
# RFC 7239 section 4: pairs joined by ";", a value with brackets or a port in quotes. Nothing in it is tried twice: with
# two runs of spaces to share out, 16 kB of them took 16 s.
FOR = re.compile(r'(?:^|;)\s*+for\s*+=\s*+(?:"([^"\\]*+)"|([^;"\s]*+))\s*+(?=;|$)', re.IGNORECASE)
NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?|([0-9A-Fa-f:.]+)")


def peer(scope: Scope) -> str:
    """The address of the other end of the connection; empty where there is none."""
    client = scope.get("client")
    if client is None:
        return ""
    host: str = client[0]
    return host if ":" not in host else _plain(host)


def ip_of(server: ServerSettings) -> Callable[[Scope], str]:
    """How the caller's address is found; without trusted proxies it is the peer's, which costs nothing."""
    return ClientIps(server.trusted_proxies) if server.trusted_proxies else peer


class ClientIps:
    """Finds the caller's address; `trusted` are the networks of proxies."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = tuple(trusted)
        self._trusts_peer = lru_cache(CACHED)(self._is_proxy)
        self._cached_name = lru_cache(CACHED)(self._name)

    def __call__(self, scope: Scope) -> str:
        """The right-most address that is no trusted proxy's; the peer's if it is not trusted or no header has one."""
        ip = peer(scope)
        if not self._trusts_peer(ip):
            return ip
        chain, forwarded = [], []
        for name, value in scope["headers"]:
            if name == XFF:
                chain.append(value)
            elif name == FORWARDED:
                forwarded.append(value)
        if not chain and not forwarded:
            return ip
        return self._reported(b",".join(chain), b",".join(forwarded)) or ip

    def _reported(self, chain: bytes, forwarded: bytes) -> str | None:
        small = len(chain) + len(forwarded) <= MAX_CACHED_BYTES
        return self._cached_name(chain, forwarded) if small else self._name(chain, forwarded)

    def _name(self, chain: bytes, forwarded: bytes) -> str | None:
        """The address by both headers. A proxy writes one and passes the other on: where they differ neither counts."""
        by_chain = self._walk(chain.decode("latin-1").split(",")) if chain else None
        by_forwarded = self._walk(_for_nodes(forwarded.decode("latin-1"))) if forwarded else None
        if chain and forwarded:
            return by_chain if by_chain == by_forwarded else None
        return by_chain or by_forwarded

    def _walk(self, nodes: Sequence[str]) -> str | None:
        """The first untrusted address from the right. Ends at anything else: the proxy that wrote it knew none."""
        nearest: str | None = None
        for node in nodes[: -MAX_HOPS - 1 : -1]:
            address = _address(node)
            if address is None:
                break
            nearest = str(address)
            if not self._is_trusted(address):
                break
        return nearest

    def _is_proxy(self, ip: str) -> bool:
        address = _address(ip)
        return address is not None and self._is_trusted(address)

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)


def _for_nodes(text: str) -> list[str]:
    """The `for` of each element, empty where it has none."""
    matches = [FOR.search(element) for element in text.split(",")]
    return ["" if match is None else match[1] or match[2] or "" for match in matches]


def _address(node: str) -> Address | None:
    """Reads an address with or without brackets and port; None for anything else, such as `unknown`."""
    node = node.strip(" \t").partition("%")[0]
    match = NODE.fullmatch(node) if len(node) <= MAX_NODE else None
    if match is None:
        return None
    try:
        address = ipaddress.ip_address(match[1] or match[2] or match[3])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(CACHED)
def _plain(host: str) -> str:
    """An IPv6 address without its zone in the one form RFC 5952 gives it; as IPv4 where it only carries one."""
    address = _address(host)
    return host if address is None else str(address)
