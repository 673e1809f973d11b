"""What several workers share before any of them runs, a configuration and an address; and the place of one."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.cli.output import FAILED, CommandError
from gateway.cli.serve import run_until_stopped
from gateway.config import load
from gateway.processes.place import Place, lines
from gateway.processes.sockets import bind
from gateway.processes.worker import packed, receive
from gateway.processes.workers import Supervisor
from gateway.server import ServerError, Stop
from gateway.settings import Config
from tests.support.authority import Authority
from tests.support.processes import START_S, settings, until

CONFIGS = sorted((Path(__file__).parents[3] / "config").glob("*.yaml"))
PATIENCE = 2  # reports, one a second
UNUSABLE = "The certificates of a backend or of state cannot be used: No such file or directory."


@pytest.mark.anyio
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
async def test_every_configuration_reaches_a_worker_as_it_was_read(path: Path) -> None:
    config = load(path, env={}, allow_missing_env=True)
    reader = asyncio.StreamReader()
    reader.feed_data(packed(7, config))
    assert await receive(reader) == (7, config)


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
    config = good(tmp_path)
    async with kept(tmp_path, lambda: config) as place:
        await until(lambda: place.status == "ok", "it serves", START_S)
        hung = place.details()["pid"]
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: place.status == "ok" and place.details()["pid"] != hung, "another does", START_S)
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)


@pytest.mark.anyio
async def test_an_answer_that_nobody_waits_for_any_more_is_not_taken_for_the_next(tmp_path: Path) -> None:
    config, bad = good(tmp_path), unusable(tmp_path)
    async with kept(tmp_path, lambda: config) as place:
        await until(place.ready.is_set, "it serves", START_S)
        os.kill(place.details()["pid"], signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(place.apply(good(tmp_path)), 0.1)
        asked = asyncio.create_task(place.apply(bad))
        await asyncio.sleep(0)
        os.kill(place.details()["pid"], signal.SIGCONT)
        assert await asked is False
        assert await place.apply(config) is True
        assert not place.lacks(config)


@pytest.mark.anyio
async def test_a_worker_that_cannot_follow_a_configuration_which_came_while_it_started_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours: to callers it would be a gateway that sometimes goes by rules that do not count any more."""
    counts, bad = good(tmp_path), unusable(tmp_path)
    async with kept(tmp_path, lambda: counts) as place:
        await until(lambda: place.details()["pid"] is not None, "it starts")
        first, counts = place.details()["pid"], bad
        await until(lambda: place.reason == UNUSABLE, "the next one says why it cannot start", START_S)
        assert not place.ready.is_set()
        counts = good(tmp_path)
        await until(place.ready.is_set, "another one serves", START_S)
        assert place.details()["pid"] != first
        assert not place.lacks(counts)
    replaced = [record for record in caplog.records if record.message.startswith("a worker that cannot go by")]
    assert [vars(record)["pid"] for record in replaced] == [first]


def test_a_gateway_whose_workers_cannot_start_says_why_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def serve(config: Config) -> None:
        with Supervisor(config) as supervisor:
            await supervisor.run(lambda addresses: pytest.fail("it listens"))

    with pytest.raises(CommandError) as refused:
        run_until_stopped(serve(unusable(tmp_path, server={"port": 0, "admin": {"port": 0}, "workers": 2})))
    assert (refused.value.code, refused.value.lines) == (FAILED, (UNUSABLE,))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.anyio
async def test_a_place_for_which_there_is_no_process_to_be_had_is_filled_later(tmp_path: Path) -> None:
    """Ours: one that is not replaced at once is better than a gateway that ends, with all the others."""
    config = good(tmp_path)
    async with kept(tmp_path, lambda: config) as place:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))  # all below are taken
        try:
            await until(place.failed.is_set, "there is none")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert place.reason == "No worker can be started: Too many open files."
        await until(place.ready.is_set, "there is one", START_S)


@pytest.mark.anyio
async def test_another_configuration_does_not_wait_until_the_one_before_would_have_been_tried_again(
    tmp_path: Path,
) -> None:
    counts = unusable(tmp_path)
    async with kept(tmp_path, lambda: counts, first_pause_s=3600.0) as place:
        await until(lambda: place.failed.is_set() and place.details()["starts"] == 1, "it cannot start", START_S)
        counts = good(tmp_path)
        place.hurry()
        await until(place.ready.is_set, "it serves", START_S)


@pytest.mark.anyio
async def test_half_a_line_of_a_worker_that_died_while_it_spoke_is_not_heard() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b'{"kind": "ready"}\n{"kind": "repo')
    reader.feed_eof()
    assert [line async for line in lines(reader)] == [b'{"kind": "ready"}\n']


def good(directory: Path, **more: object) -> Config:
    """A configuration, another one each time."""
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings({}) | {"state": {"url": "redis://127.0.0.1:1/0"}} | more))
    return load(file)


def unusable(directory: Path, **more: object) -> Config:
    """One that names a file which was there when it was read."""
    file = directory / "gone.pem"
    file.write_text(Path(Authority(directory).path).read_text())
    backend = {"protocol": "otc", "url": "https://127.0.0.1:1", "tls": {"ca": str(file)}}
    config = good(directory, backends={"gone": backend}, **more)
    file.unlink()
    return config


@asynccontextmanager
async def kept(directory: Path, config: Callable[[], Config], **more: float) -> AsyncIterator[Place]:
    """Has a place kept for the length of the block."""
    (sockets,) = bind("127.0.0.1", 0, 1)
    stop = Stop()
    place = Place(0, directory, stop, patience=PATIENCE, **more)
    keeping = asyncio.create_task(place.keep(sockets, config))
    try:
        yield place
    finally:
        stop.asked.set()
        place.terminate()
        await keeping
        for sock in sockets:
            sock.close()
