"""Bodies and answers share a limited memory: who holds it, who is refused, who waits and who is cut off."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from gateway.net.body_memory import ARRIVING
from gateway.net.server import Addresses, Listener, ServingContext
from gateway.net.server.options import PRESSED_S, UNCOUNTED_BYTES
from gateway.net.server.sweeper import MemoryPressure
from tests.live.server.harness import OPTIONS, Application, Wire, calling, echo, request, respond, serving_with
from tests.support.authority import Authority
from tests.support.processes import until

KIB = 1024
LIMIT = 4 * KIB * KIB
pytestmark = pytest.mark.anyio


@dataclass
class Running:
    """A server with little memory for bodies and answers."""

    addresses: Addresses
    listener: Listener

    async def until_held(self, low: int, high: int = 100 * LIMIT) -> None:
        """Waits until so many bytes are held."""
        await until(lambda: low <= self.listener.memory.held <= high, "so much is held")


@asynccontextmanager
async def serving(
    application: Application | None = None, tls: ServingContext | None = None, **hooks: Any
) -> AsyncIterator[Running]:

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/big":
            await respond(send, 200, bytes(int(scope["query_string"])))
        elif scope["path"] == "/callbacks/x":
            await echo(scope, receive, send)
        elif application is not None:
            await application(scope, receive, send)

    listener = Listener(replace(OPTIONS, tls=tls))
    listener.memory.change(LIMIT)
    hooks["is_awaited"] = lambda path: path.startswith("/callbacks/")
    async with serving_with(serve, listener.options, listener, **hooks) as addresses:
        yield Running(addresses, listener)


def half_of(size: int, path: str = "/") -> bytes:
    """A request whose body misses its last byte."""
    return request(path, f"Content-Length: {size + 1}", method="POST") + b"x" * size


async def test_a_caller_whose_bodies_hold_a_quarter_is_refused_more_and_small_ones_are_not_counted() -> None:
    application = Application()
    application.gate.set()
    async with serving(application) as running, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(calling(running.addresses.public)) for _ in range(5)]
        for wire in wires[:3]:
            wire.say(half_of(LIMIT // 16))
        await running.until_held(3 * LIMIT // 16)
        wires[3].say(half_of(LIMIT // 8))
        answer = await wires[3].answer()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.message == "Your requests take too much memory."
        wires[4].say(request("/small", method="POST", body=b"x" * UNCOUNTED_BYTES))
        assert (await wires[4].answer()).status == 200
        for wire in wires[:3]:
            wire.say(b"y")
            assert (await wire.answer()).status == 200
        await running.until_held(0, 0)
        wires[4].say(request("/again", method="POST", body=b"x" * (LIMIT // 8)))
        assert (await wires[4].answer()).status == 200


async def test_bodies_of_all_callers_together_get_a_half() -> None:
    application = Application()
    async with serving(application, holder_of=lambda scope: scope["path"]) as running, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(calling(running.addresses.public)) for _ in range(3)]
        for number, wire in enumerate(wires[:2]):
            wire.say(half_of(LIMIT // 4 - 64 * KIB, f"/{number}"))
        await running.until_held(LIMIT // 2 - 150 * KIB)
        wires[2].say(half_of(LIMIT // 4 - 64 * KIB, "/third"))
        answer = await wires[2].answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert running.listener.memory.held == 0


async def test_a_callers_body_counts_for_who_it_is_once_that_is_known() -> None:
    async with serving(Application()) as running, calling(running.addresses.public) as wire:
        memory = running.listener.memory
        wire.say(request("/", f"Content-Length: {LIMIT // 4}", method="POST") + bytes(LIMIT // 8))
        await running.until_held(LIMIT // 8)
        assert not memory.fits_share("127.0.0.1", LIMIT // 8)
        for connection in running.listener.connections:
            assert connection.exchange is not None
            connection.exchange.holder = "key:7"
        wire.say(bytes(LIMIT // 16))
        await until(lambda: not memory.fits_share("key:7", LIMIT // 8), "it counts for the key")
        assert memory.fits_share("127.0.0.1", LIMIT // 4)
    assert running.listener.memory.held == 0


async def test_what_a_tool_server_brings_waits_for_room_and_is_not_refused() -> None:
    async with serving() as running, AsyncExitStack() as stack:
        memory, wires = running.listener.memory, []
        memory.take(ARRIVING, LIMIT)
        for _ in range(2):
            wires.append(await stack.enter_async_context(calling(running.addresses.public)))
            wires[-1].say(request("/callbacks/x", method="POST", body=b"x" * (LIMIT // 4)))
        assert len(json.loads((await wires[0].answer()).body)["body"]) == LIMIT // 4  # one of them may always go on
        assert len(json.loads((await wires[1].answer()).body)["body"]) == LIMIT // 4
        memory.give(ARRIVING, LIMIT)
    assert memory.held == 0


async def never_reading(running: Running, stack: AsyncExitStack, size: int) -> socket.socket:
    """A caller who asks for a large answer and takes nothing of it."""
    caller = stack.enter_context(socket.socket())
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    caller.setblocking(False)
    await asyncio.get_running_loop().sock_connect(caller, running.addresses.public)
    await asyncio.get_running_loop().sock_sendall(caller, request(f"/big?{size}"))
    return caller


async def test_an_answer_counts_as_a_whole_until_its_last_byte_is_sent() -> None:
    size = 5 * LIMIT  # more than sockets hold
    async with serving() as running, AsyncExitStack() as stack:
        caller = await never_reading(running, stack, size)
        await running.until_held(size, size)  # though the sockets have taken some of it
        loop, taken = asyncio.get_running_loop(), 0
        while taken < LIMIT:
            taken += len(await loop.sock_recv(caller, 64 * KIB))
        assert running.listener.memory.held == size


async def test_callers_who_do_not_read_are_cut_off_when_there_is_no_room_and_readers_are_not() -> None:
    size, loop = 5 * LIMIT, asyncio.get_running_loop()  # more than sockets hold
    async with serving() as running, AsyncExitStack() as stack:
        pressure, memory = MemoryPressure(running.listener), running.listener.memory
        await never_reading(running, stack, size)
        reader: Wire = await stack.enter_async_context(calling(running.addresses.public))
        reader.say(request(f"/big?{size}"))
        await running.until_held(size + LIMIT)
        pressure.look(loop.time())
        assert len(running.listener.unread) == 2  # both have just begun
        whole = await reader.answer()
        assert len(whole.body) == size
        pressure.look(loop.time() + PRESSED_S)
        assert running.listener.unread == set()
        assert memory.held == 0
        assert not memory.refuses


class Arriving:
    """An answer of a tool server."""

    def __init__(self) -> None:
        self.goes_on = False

    def resume(self) -> None:
        self.goes_on = True


async def test_they_are_cut_off_too_when_there_is_some_room_but_too_little_for_the_answers_that_wait() -> None:
    size, callers, now = 2 * LIMIT, 5, asyncio.get_running_loop().time()
    # None of them holds more than its share.
    async with serving(holder_of=lambda scope: str(scope["client"])) as running, AsyncExitStack() as stack:
        pressure, memory, one = MemoryPressure(running.listener), running.listener.memory, Arriving()
        memory.change(callers * size + LIMIT)
        for _ in range(callers):
            await never_reading(running, stack, size)
        await running.until_held(callers * size, callers * size)
        memory.take("another", LIMIT)
        memory.take(ARRIVING, LIMIT // 2)
        assert memory.must_wait(one, LIMIT // 2)
        memory.give("another", LIMIT)  # who has read all of its answer
        assert not memory.is_full
        assert not one.goes_on
        pressure.look(now)
        pressure.look(now + PRESSED_S)
        assert len(running.listener.unread) < callers
        assert one.goes_on


async def test_calls_are_refused_when_no_room_can_be_made_and_health_is_not() -> None:
    application = Application()
    async with serving(application) as running, calling(running.addresses.public) as wire:
        memory, pressure = running.listener.memory, MemoryPressure(running.listener)
        memory.take("others", LIMIT + 1)
        pressure.look(0.0)
        wire.say(request("/a"))
        assert (await wire.answer()).status == 200
        pressure.look(2 * PRESSED_S)
        wire.say(request("/health"))
        assert (await wire.answer()).status == 200
        wire.say(request("/b"))
        answer = await wire.answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        memory.give("others", LIMIT + 1)
        async with calling(running.addresses.public) as other:
            other.say(request("/c"))
            assert (await other.answer()).status == 200
    assert application.seen == ["/a", "/health", "/c"]


async def test_answers_over_tls_are_counted_too_and_come_whole(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context, size = ServingContext(authority.serving()), 5 * LIMIT
    async with serving(tls=context) as running:
        reader, writer = await asyncio.open_connection(
            *running.addresses.public, ssl=authority.trusting(), server_hostname="127.0.0.1", limit=64 * KIB
        )
        writer.write(request(f"/big?{size}"))
        await running.until_held(LIMIT)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"200 OK" in head
        assert len(await reader.readexactly(size)) == size
        await running.until_held(0, 0)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
