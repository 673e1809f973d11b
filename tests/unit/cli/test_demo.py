"""Where the demonstration listens. What it prints and leaves behind: tests/live/cli/test_demo.py."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

from gateway.cli.demo import USUAL_ADMIN_PORT, USUAL_PORT, _usual_ports


def test_when_the_usual_ports_are_taken_it_takes_free_ones() -> None:
    """Whether this test takes them or another process has them."""
    with ExitStack() as stack:
        for port in (USUAL_PORT, USUAL_ADMIN_PORT):
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        assert _usual_ports(None) == (0, 0)
        assert _usual_ports(4711) == (4711, 0)
