"""What several workers share before any of them runs: a configuration, and an address."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.config import load
from gateway.processes.worker import packed, receive
from gateway.processes.workers import bind
from gateway.server import ServerError

CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.anyio
async def test_every_configuration_reaches_a_worker_as_it_was_read() -> None:
    for path in CONFIG.glob("*.yaml"):
        config = load(path, env={}, allow_missing_env=True)
        reader = asyncio.StreamReader()
        reader.feed_data(packed(config))
        assert await receive(reader) == config


def test_all_sockets_share_one_port_and_nobody_else_gets_it() -> None:
    groups = bind("localhost", 0, 3)
    try:
        (port,) = {sock.getsockname()[1] for group in groups for sock in group}
        assert len({tuple(sock.family for sock in group) for group in groups}) == 1
        for group in groups:
            for sock in group:
                sock.listen()
        with pytest.raises(ServerError, match="the port is in use"):
            bind("localhost", port, 3)
    finally:
        for group in groups:
            for sock in group:
                sock.close()


def test_a_port_of_somebody_else_is_not_shared() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ServerError, match="the port is in use"):
            bind("127.0.0.1", other.getsockname()[1], 2)
