"""What several workers share, a configuration and an address, and how one of them is supervised."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from gateway.cli.output import FAILED, CommandError
from gateway.cli.serve import run_until_stopped
from gateway.console.view import Answering
from gateway.net.server import ServerError, Stop
from gateway.processes.control import messages, packed, receive
from gateway.processes.slot import WorkerSlot
from gateway.processes.sockets import bind
from gateway.processes.supervisor import Supervisor
from gateway.settings import Config
from gateway.settings.load import load
from tests.support import stand_in_worker
from tests.support.authority import Authority
from tests.support.processes import settings, until
from tests.support.stand_in_worker import UNUSABLE

CONFIGS = sorted((Path(__file__).parents[3] / "config").glob("*.yaml"))
REPORT_S = 0.2  # so that a worker hangs after two seconds
GONE = "The certificates of a backend or of state cannot be used: No such file or directory."


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
async def test_a_worker_that_stops_reporting_is_killed_and_replaced() -> None:
    """Ours: a process that hangs is worse than one that dies, and only its supervisor can notice."""
    deaths: list[str] = []
    async with supervised(Target("good"), deaths) as slot:
        await until(lambda: slot.status == "ok", "it serves")
        hung = slot.details()["pid"]
        assert slot.processes == {"worker-0": hung}
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: slot.status == "ok" and slot.details()["pid"] != hung, "another does")
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)
    assert deaths == ["hung"]


@pytest.mark.anyio
async def test_a_late_answer_is_not_taken_for_that_of_the_next_order() -> None:
    target = Target("good")
    async with supervised(target) as slot:
        await until(slot.ready.is_set, "it serves")
        os.kill(slot.details()["pid"], signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slot.apply(word("good again")), 0.1)
        applying = asyncio.create_task(slot.apply(word("bad")))
        await asyncio.sleep(0)
        os.kill(slot.details()["pid"], signal.SIGCONT)
        assert await applying is False
        assert await slot.apply(target.config) is True
        assert not slot.lacks(target.config)


@pytest.mark.anyio
async def test_a_worker_that_cannot_follow_a_configuration_which_came_while_it_started_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ours: to callers it would be a gateway that sometimes goes by rules that do not count any more."""
    target, deaths = Target("good"), list[str]()
    async with supervised(target, deaths) as slot:
        await until(lambda: slot.details()["pid"] is not None, "it starts")
        first, target.config = slot.details()["pid"], word("bad")
        await until(lambda: slot.reason == UNUSABLE, "the next one says why it cannot start")
        assert not slot.ready.is_set()
        target.config = word("good again")
        await until(slot.ready.is_set, "another one serves")
        assert slot.details()["pid"] != first
        assert not slot.lacks(target.config)
    assert set(deaths) == {"died"}  # those that could not start; the one that was replaced is none
    replaced = [record for record in caplog.records if record.message.startswith("a worker that cannot use")]
    assert [vars(record)["pid"] for record in replaced] == [first]


@pytest.mark.anyio
async def test_a_worker_that_cannot_be_started_is_started_later() -> None:
    """Ours: one that is not replaced at once is better than a gateway that ends, with all the others."""
    async with supervised(Target("good")) as slot:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))  # all below are taken
        try:
            await until(slot.failed.is_set, "there is none")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert slot.reason == "No worker can be started: Too many open files."
        await until(slot.ready.is_set, "there is one")


@pytest.mark.anyio
async def test_another_configuration_does_not_wait_until_the_one_before_would_have_been_tried_again() -> None:
    target = Target("bad")
    async with supervised(target, first_pause_s=3600.0) as slot:
        await until(lambda: slot.failed.is_set() and slot.details()["starts"] == 1, "it cannot start")
        target.config = word("good")
        slot.hurry()
        await until(slot.ready.is_set, "it serves")


def test_a_gateway_whose_workers_cannot_start_says_why_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def serve(config: Config) -> None:
        await Supervisor(config).run(lambda addresses: pytest.fail("it listens"))

    with pytest.raises(CommandError) as refused:
        run_until_stopped(serve(unusable(tmp_path)))
    assert (refused.value.code, refused.value.lines) == (FAILED, (GONE,))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.anyio
async def test_half_a_message_of_a_worker_that_died_is_left_out() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b'{"kind": "ready"}\n{"kind": "repo')
    reader.feed_eof()
    assert [message async for message in messages(reader)] == [{"kind": "ready"}]


def unusable(directory: Path) -> Config:
    """A configuration of two workers that names a file which was there when it was read."""
    file, config = directory / "gone.pem", directory / "gateway.yaml"
    file.write_text(Path(Authority(directory).path).read_text())
    backend = {"protocol": "otc", "url": "https://127.0.0.1:1", "tls": {"ca": str(file)}}
    server = {"port": 0, "admin": {"port": 0}, "workers": 2}
    more = {"server": server, "state": {"url": "redis://127.0.0.1:1/0"}, "backends": {"gone": backend}}
    config.write_text(json.dumps(settings({}) | more))
    read = load(config)
    file.unlink()
    return read


def word(name: str) -> Config:
    """What the stand-in takes for a configuration."""
    return cast(Config, name)


class Target:
    """The configuration that the worker is to have at the moment."""

    def __init__(self, name: str) -> None:
        self.config = word(name)


@asynccontextmanager
async def supervised(
    target: Target, deaths: list[str] | None = None, *, first_pause_s: float = 0.05
) -> AsyncIterator[WorkerSlot]:
    """Supervises a stand-in for a worker for the length of the block; `deaths` gets the cause of each."""
    (sockets,) = bind("127.0.0.1", 0, 1)
    stop = Stop()
    slot = WorkerSlot(
        0,
        stop,
        lambda rows: None,
        ([] if deaths is None else deaths).append,
        Answering(),
        program=(stand_in_worker.__file__,),
        report_s=REPORT_S,
        first_pause_s=first_pause_s,
    )
    running = asyncio.create_task(slot.run(sockets, lambda: target.config))
    try:
        yield slot
    finally:
        stop.asked.set()
        slot.terminate()
        await running
        for sock in sockets:
            sock.close()
