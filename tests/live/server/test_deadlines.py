"""Every wait for a caller ends, and only those waits do."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref

import pytest

from tests.live.server.harness import (
    DEADLINE_S,
    LONG_S,
    Application,
    calling,
    check_after,
    connections,
    request,
    serving,
)

pytestmark = pytest.mark.anyio

SHORT_S = 0.2


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving(Application(), head_timeout_s=SHORT_S) as addresses, calling(addresses.public) as wire:
        assert await wire.rest() == b""


async def test_a_head_that_trickles_is_refused() -> None:
    async with serving(Application(), head_timeout_s=SHORT_S) as addresses, calling(addresses.public) as wire:
        wire.say(b"GET / HTTP/1.1\r\nHost: a\r\n")
        trickle = asyncio.create_task(_trickle(wire.writer))
        answer = await wire.answer()
        trickle.cancel()
        assert (answer.status, answer.message) == (408, "The head of the request took too long.")
        assert await wire.rest() == b""


async def test_a_body_that_trickles_is_refused_and_the_application_is_told() -> None:
    application = Application()
    async with serving(application, body_timeout_s=SHORT_S) as addresses, calling(addresses.public) as wire:
        wire.say(request("/", "Content-Length: 100000", method="POST"))
        trickle = asyncio.create_task(_trickle(wire.writer))
        answer = await wire.answer()
        trickle.cancel()
        assert (answer.status, answer.message) == (408, "The body of the request took too long.")
        await application.until(lambda: application.ended == ["/"])


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"X")
        await asyncio.sleep(0.01)


async def test_an_idle_connection_is_closed_without_a_word() -> None:
    async with serving(Application(), idle_timeout_s=SHORT_S) as addresses, calling(addresses.public) as wire:
        wire.say(request())
        assert (await wire.answer()).status == 200
        assert await wire.rest() == b""


async def test_a_long_answer_is_not_cut_by_the_limits_of_the_request() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/hold"))
        await application.until(lambda: application.seen == ["/hold"])
        for times in range(1, 4):
            check_after(times * LONG_S)
        application.gate.set()
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize("lines", [(), ("Connection: close",)])
async def test_a_caller_that_does_not_read_is_cut_off_and_the_application_goes_free(lines: tuple[str, ...]) -> None:
    application = Application()
    async with serving(application, stall_timeout_s=SHORT_S) as addresses:
        with socket.create_connection(addresses.public) as caller:
            caller.sendall(request("/large", *lines))
            await application.until(lambda: application.ended == ["/large"])


async def test_an_answer_left_unread_at_the_end_of_a_connection_is_dropped() -> None:
    application = Application()
    async with serving(application, stall_timeout_s=SHORT_S) as addresses:
        with socket.create_connection(addresses.public) as caller:
            caller.sendall(request("/huge", "Connection: close"))
            await application.until(lambda: application.ended == ["/huge"])
            await _gone(_freed())


@pytest.mark.parametrize(("path", "size"), [("/large", 65_536_000), ("/huge", 30_000_000)])
async def test_a_slow_reader_that_makes_progress_gets_everything(path: str, size: int) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request(path, "Connection: close"))
        read = 0
        for times in range(1, 6):
            read += len(await wire.reader.readexactly(5_000_000))  # more than sockets take without the server's help
            check_after(times * LONG_S)
        assert read + len(await wire.rest()) > size


async def test_a_caller_is_not_blamed_for_what_we_do_not_read() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        third = request("/c")
        wire.say(request("/hold") + request("/b") + third[:9])
        await application.until(lambda: application.seen == ["/hold"])
        for times in range(1, 4):
            check_after(times * LONG_S)
        application.gate.set()
        wire.say(third[9:])
        assert [(await wire.answer()).status for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    "said",
    [
        request("/", "Content-Length: 100", method="POST") + b"half",
        request("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhe",
        request("/listens") + request("/queued"),
    ],
    ids=["mid-body", "mid-chunk", "with a queue"],
)
async def test_a_caller_that_leaves_frees_everything_at_once(said: bytes) -> None:
    application = Application()
    gc.disable()  # what only the collector finds piles up between its runs
    try:
        async with serving(application) as addresses:
            async with calling(addresses.public) as wire:
                wire.say(said)
                await application.until(lambda: len(application.seen) == 1)
                freed = _freed()
                assert len(freed) == 1
            await application.until(lambda: application.ended == application.seen)
            await _gone(freed)
        assert len(application.seen) == 1
    finally:
        gc.enable()


def _freed() -> list[asyncio.Event]:
    """An event for every connection, set when it is freed."""
    events = []
    for connection in connections():
        events.append(asyncio.Event())
        weakref.finalize(connection, events[-1].set)
    return events


async def _gone(connections: list[asyncio.Event]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        for freed in connections:
            await freed.wait()
