"""How often deadlines are looked at."""

from __future__ import annotations

import pytest

from gateway.server import ServerOptions


@pytest.mark.parametrize(("idle_timeout_s", "sweep_s"), [(75, 1.0), (2, 0.5), (0.4, 0.1)])
def test_deadlines_are_looked_at_often_enough_for_the_shortest_and_at_least_every_second(
    idle_timeout_s: float, sweep_s: float
) -> None:
    options = ServerOptions(
        host="127.0.0.1",
        port=0,
        admin_host="127.0.0.1",
        admin_port=0,
        max_head_bytes=65536,
        max_connections=10,
        head_timeout_s=10,
        body_timeout_s=30,
        idle_timeout_s=idle_timeout_s,
        shutdown_grace_s=30,
    )
    assert options.sweep_s == sweep_s
