"""What several workers share, a configuration and an address, and how one of them is supervised."""

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
from gateway.console.view import Answering
from gateway.processes.control import messages, packed, receive
from gateway.processes.slot import WorkerSlot
from gateway.processes.sockets import bind
from gateway.processes.supervisor import Supervisor
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


def test_all_sockets_share_one_port_and_others_cannot_bind_it() -> None:
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


def test_a_port_in_use_is_not_shared() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ServerError, match="the port is in use"):
            bind("127.0.0.1", other.getsockname()[1], 2)


@pytest.mark.anyio
async def test_a_worker_that_stops_reporting_is_killed_and_replaced(tmp_path: Path) -> None:
    """Ours: a process that hangs is worse than one that dies, and only its supervisor can notice."""
    config = good(tmp_path)
    deaths: list[str] = []
    async with supervised(lambda: config, deaths) as slot:
        await until(lambda: slot.status == "ok", "it serves", START_S)
        assert slot.processes == {"worker-0": slot.details()["pid"]}
        hung = slot.details()["pid"]
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: slot.status == "ok" and slot.details()["pid"] != hung, "another does", START_S)
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)
    assert deaths == ["hung"]


@pytest.mark.anyio
async def test_a_late_answer_is_not_taken_for_that_of_the_next_order(tmp_path: Path) -> None:
    config, bad = good(tmp_path), unusable(tmp_path)
    async with supervised(lambda: config) as slot:
        await until(slot.ready.is_set, "it serves", START_S)
        os.kill(slot.details()["pid"], signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slot.apply(good(tmp_path)), 0.1)
        asked = asyncio.create_task(slot.apply(bad))
        await asyncio.sleep(0)
        os.kill(slot.details()["pid"], signal.SIGCONT)
        assert await asked is False
        assert await slot.apply(config) is True
        assert not slot.lacks(config)


@pytest.mark.anyio
async def test_a_worker_that_cannot_follow_a_configuration_which_came_while_it_started_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours: to callers it would be a gateway that sometimes goes by rules that do not count any more."""
    counts, bad = good(tmp_path), unusable(tmp_path)
    deaths: list[str] = []
    async with supervised(lambda: counts, deaths) as slot:
        await until(lambda: slot.details()["pid"] is not None, "it starts")
        first, counts = slot.details()["pid"], bad
        await until(lambda: slot.reason == UNUSABLE, "the next one says why it cannot start", START_S)
        assert not slot.ready.is_set()
        counts = good(tmp_path)
        await until(slot.ready.is_set, "another one serves", START_S)
        assert slot.details()["pid"] != first
        assert not slot.lacks(counts)
    assert set(deaths) == {"died"}  # those that could not start; the one that was replaced is none
    replaced = [record for record in caplog.records if record.message.startswith("a worker that cannot use")]
    assert [vars(record)["pid"] for record in replaced] == [first]


def test_a_gateway_whose_workers_cannot_start_says_why_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def serve(config: Config) -> None:
        await Supervisor(config).run(lambda addresses: pytest.fail("it listens"))

    with pytest.raises(CommandError) as refused:
        run_until_stopped(serve(unusable(tmp_path, server={"port": 0, "admin": {"port": 0}, "workers": 2})))
    assert (refused.value.code, refused.value.lines) == (FAILED, (UNUSABLE,))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.anyio
async def test_a_worker_that_cannot_be_started_is_started_later(tmp_path: Path) -> None:
    """Ours: one that is not replaced at once is better than a gateway that ends, with all the others."""
    config = good(tmp_path)
    async with supervised(lambda: config) as slot:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))  # all below are taken
        try:
            await until(slot.failed.is_set, "there is none")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert slot.reason == "No worker can be started: Too many open files."
        await until(slot.ready.is_set, "there is one", START_S)


@pytest.mark.anyio
async def test_another_configuration_does_not_wait_until_the_one_before_would_have_been_tried_again(
    tmp_path: Path,
) -> None:
    counts = unusable(tmp_path)
    async with supervised(lambda: counts, first_pause_s=3600.0) as slot:
        await until(lambda: slot.failed.is_set() and slot.details()["starts"] == 1, "it cannot start", START_S)
        counts = good(tmp_path)
        slot.hurry()
        await until(slot.ready.is_set, "it serves", START_S)


@pytest.mark.anyio
async def test_half_a_message_of_a_worker_that_died_is_left_out() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b'{"kind": "ready"}\n{"kind": "repo')
    reader.feed_eof()
    assert [message async for message in messages(reader)] == [{"kind": "ready"}]


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
async def supervised(
    config: Callable[[], Config], deaths: list[str] | None = None, **more: float
) -> AsyncIterator[WorkerSlot]:
    """Supervises one worker for the length of the block; `deaths` gets the cause of each."""
    (sockets,) = bind("127.0.0.1", 0, 1)
    stop = Stop()
    count_death = ([] if deaths is None else deaths).append
    slot = WorkerSlot(0, stop, lambda rows: None, count_death, Answering(), patience=PATIENCE, **more)
    running = asyncio.create_task(slot.run(sockets, config))
    try:
        yield slot
    finally:
        stop.asked.set()
        slot.terminate()
        await running
        for sock in sockets:
            sock.close()
