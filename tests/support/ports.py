"""Ports for servers that do not report one that they picked themselves."""

from __future__ import annotations

import random
import socket

LASTING_PORTS = range(20_000, 32_000)  # below those that Linux gives to outgoing connections


def lasting_port() -> int:
    """A port that stays free while it is unused, as between two lives of a server."""
    for port in random.sample(LASTING_PORTS, len(LASTING_PORTS)):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("every port is taken")
