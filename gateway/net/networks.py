"""Which callers count as one: by the network that their address is in."""

from __future__ import annotations

import socket


def network(ip: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of an IPv6 address, all of which one host may have."""
    if ":" not in ip:
        return ip
    try:
        packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    except OSError:
        return ip
    if packed[:12] == b"\0" * 10 + b"\xff\xff":  # IPv4 as a socket for both sees it
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"
