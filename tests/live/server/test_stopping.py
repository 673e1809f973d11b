"""A signal to stop loses no request under way, and never takes longer than the grace."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gateway.net.server import Addresses
from tests.live.server.harness import DEADLINE_S, Wire, calling, request

pytestmark = pytest.mark.anyio


class Process:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """Reads the next line it prints."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def addresses(self) -> Addresses:
        public, admin = json.loads(await self.line())
        return Addresses(tuple(public), tuple(admin))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def ended_well(self) -> bool:
        """Waits for the end, and tells that it was a regular one."""
        assert await self.line() == "done"
        async with asyncio.timeout(DEADLINE_S):
            _, errors = await self.process.communicate()
        return self.process.returncode == 0 and b"Traceback" not in errors


@asynccontextmanager
async def process(grace_s: float = 30.0, delay_s: float = 0.0) -> AsyncIterator[Process]:
    arguments = ("-m", "tests.live.server.process", str(grace_s), str(delay_s))
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=pipe, stderr=pipe)
    try:
        yield Process(child)
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def seen(addresses: Addresses) -> int:
    """Releases what is held and returns how many requests the application has seen."""
    async with calling(addresses.admin) as wire:
        wire.say(request())
        return int((await wire.answer()).body)


async def test_requests_under_way_are_answered_and_the_process_ends_well() -> None:
    async with process() as server, AsyncExitStack() as stack:
        addresses = await server.addresses()
        wires = [await stack.enter_async_context(calling(addresses.public)) for _ in range(50)]
        for wire in wires:
            wire.say(request("/hold"))
        idle = await stack.enter_async_context(calling(addresses.public))
        idle.say(request())
        assert (await idle.answer()).status == 200
        half = await stack.enter_async_context(calling(addresses.public))
        half.say(request("/", "Content-Length: 4", method="POST") + b"bo")
        late = await stack.enter_async_context(calling(addresses.public))
        late.say(request()[:20])
        server.stop()
        assert await server.line() == "draining"
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*addresses.public)
        half.say(b"dy")
        late.say(request()[20:])
        assert await seen(addresses) >= 50
        for wire in (*wires, half, late):
            answer = await wire.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await wire.rest() == b""
        assert await server.ended_well()


async def test_under_load_every_request_gets_its_answer() -> None:
    async with process() as server, AsyncExitStack() as stack:
        addresses = await server.addresses()
        wires = [await stack.enter_async_context(calling(addresses.public)) for _ in range(20)]
        callers = [asyncio.create_task(_ask_until_told_to_close(wire)) for wire in wires]
        while await seen(addresses) < 200:
            pass
        server.stop()
        assert all(count > 0 for count in await asyncio.gather(*callers))
        assert await server.line() == "draining"
        assert await server.ended_well()


async def _ask_until_told_to_close(wire: Wire) -> int:
    count = 0
    while True:
        wire.say(request())
        answer = await wire.answer()
        assert answer.status == 200
        count += 1
        if answer.headers.get("connection") == "close":
            return count


async def test_new_calls_are_taken_until_the_delay_is_over_and_a_second_signal_ends_only_that() -> None:
    async with process(delay_s=600.0) as server, AsyncExitStack() as stack:
        addresses = await server.addresses()
        before = await stack.enter_async_context(calling(addresses.public))
        held = await stack.enter_async_context(calling(addresses.public))
        held.say(request("/hold"))
        server.stop()
        assert await server.line() == "stopping"
        for wire in (before, await stack.enter_async_context(calling(addresses.public))):
            wire.say(request())
            answer = await wire.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        server.stop()
        assert await server.line() == "draining"
        await seen(addresses)
        assert (await held.answer()).status == 200
        assert await server.ended_well()


async def test_a_delay_ends_by_itself() -> None:
    async with process(delay_s=0.1) as server:
        await server.addresses()
        server.stop()
        assert [await server.line(), await server.line()] == ["stopping", "draining"]
        assert await server.ended_well()


async def test_the_grace_is_not_exceeded() -> None:
    async with process(grace_s=0.2) as server:
        addresses = await server.addresses()
        async with calling(addresses.public) as wire:
            wire.say(request("/hold"))
            server.stop()
            assert await server.line() == "draining"
            assert await wire.is_cut()
            assert await server.ended_well()


async def test_a_second_signal_ends_it_at_once() -> None:
    async with process() as server:
        addresses = await server.addresses()
        async with calling(addresses.public) as wire:
            wire.say(request("/hold"))
            server.stop()
            assert await server.line() == "draining"
            server.process.send_signal(signal.SIGINT)
            assert await wire.is_cut()
            assert await server.ended_well()
