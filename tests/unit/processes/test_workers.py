"""What several workers share before any of them runs, a configuration and an address; and the place of one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from gateway.config import load
from gateway.processes.place import Place
from gateway.processes.worker import packed, receive
from gateway.processes.workers import bind
from gateway.server import ServerError, Stop
from tests.live.faults.processes import START_S, settings, until

CONFIGS = sorted((Path(__file__).parents[3] / "config").glob("*.yaml"))
PATIENCE = 2  # reports, one a second


@pytest.mark.anyio
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
async def test_every_configuration_reaches_a_worker_as_it_was_read(path: Path) -> None:
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


@pytest.mark.anyio
async def test_a_worker_from_which_nothing_is_heard_is_killed_and_another_takes_its_place(tmp_path: Path) -> None:
    """Ours: a process that does not end and does nothing is worse than one that dies; nobody else would notice it."""
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps(settings({})))
    config = load(file)
    (sockets,) = bind("127.0.0.1", 0, 1)
    stop = Stop()
    place = Place(0, tmp_path, stop, patience=PATIENCE)
    keeping = asyncio.create_task(place.keep(sockets, lambda: config))
    try:
        await until(lambda: place.status == "ok", "it serves", START_S)
        hung = place.details()["pid"]
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: place.status == "ok" and place.details()["pid"] != hung, "another does", START_S)
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)
    finally:
        stop.asked.set()
        place.terminate()
        await keeping
        for sock in sockets:
            sock.close()
