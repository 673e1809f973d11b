"""Every size and every count has its limit, and says so."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from gateway.net.server.options import ADMIN_CONNECTIONS, RESERVED_CONNECTIONS
from tests.live.server.harness import Application, calling, request, serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/", "X: " + "a" * 5000), 431),
        (request("/", *(f"X{n}: {'a' * 40}" for n in range(90))), 431),
        (request("/", *(f"X{n}: a" for n in range(100))), 431),
        (request("/" + "a" * 9000), 414),
        (request("/?" + "a" * 9000), 414),
    ],
    ids=["one large header", "large together", "too many", "long path", "long query"],
)
async def test_an_oversized_head_is_refused(data: bytes, status: int) -> None:
    application = Application()
    async with serving(application, max_head_bytes=4096 if status == 431 else 16384) as addresses:
        async with calling(addresses.public) as wire:
            wire.say(data + request("/smuggled"))
            answer = await wire.answer()
            assert (answer.status, answer.headers["connection"]) == (status, "close")
            assert answer.message
            assert await wire.rest() == b""
        assert application.seen == []


async def test_a_head_within_the_limit_is_taken_whatever_its_body_weighs() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/", "X: " + "a" * 3900, method="POST", body=b"b" * 300_000))
        assert len((await wire.answer()).body) > 300_000


@pytest.mark.parametrize("endless", [b"GET /", b"GET / HTTP/1.1\r\nX", b"GET / HTTP/1.1\r\nX: ", b"\r\n"])
async def test_a_head_without_end_is_refused_before_it_ends(endless: bytes) -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(endless + endless[-1:] * 3000)
        wire.say(endless[-1:] * 30_000)
        assert (await wire.answer()).status in (400, 414, 431)


@pytest.mark.parametrize("endless", [b"5;a=", b"0\r\nTrailer", b"0\r\nTrailer: a"])
async def test_a_chunk_extension_or_trailer_without_end_is_refused(endless: bytes) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/", "Transfer-Encoding: chunked", method="POST") + endless)
        await application.until(lambda: application.seen == ["/"])
        for _ in range(10):
            wire.say(b"a" * 1000)
        assert (await wire.answer()).status == 431


async def test_the_second_request_has_the_whole_limit_again() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        for _ in range(3):
            wire.say(request("/", "X: " + "a" * 3900))
            assert (await wire.answer()).status == 200


async def test_connections_over_the_limit_are_told_and_closed_while_the_others_are_served() -> None:
    async with serving(Application(), max_connections=2) as addresses:
        async with calling(addresses.public) as first, calling(addresses.public) as second:
            for wire in (first, second):
                wire.say(request())
                assert (await wire.answer()).status == 200
            async with calling(addresses.public) as third:
                third.say(request())
                answer = await third.answer()
                assert (answer.status, answer.message) == (503, "Too many connections.")
                assert answer.headers["retry-after"] == "1"
                assert await third.rest() == b""
            async with calling(addresses.admin) as operator:
                operator.say(request())
                assert (await operator.answer()).body == b'"admin"'
            first.say(request())
            assert (await first.answer()).status == 200
        async with calling(addresses.public) as later:
            later.say(request())
            assert (await later.answer()).status == 200


async def test_silent_connections_do_not_shut_out_probes_of_liveness() -> None:
    """Of those beyond the limit the oldest gives way; at any other path operators are told that there are too many."""
    async with serving(Application()) as addresses, AsyncExitStack() as stack:
        silent = [
            await stack.enter_async_context(calling(addresses.admin))
            for _ in range(ADMIN_CONNECTIONS + 2 * RESERVED_CONNECTIONS)
        ]
        assert all([await wire.is_cut() for wire in silent[ADMIN_CONNECTIONS : ADMIN_CONNECTIONS + 100]])
        for _ in range(3):
            async with calling(addresses.admin) as wire:
                wire.say(request("/livez"))
                assert (await wire.answer()).status == 200
        async with calling(addresses.admin) as wire:
            wire.say(request("/metrics"))
            assert (await wire.answer()).status == 503
        assert not any(wire.reader.at_eof() for wire in silent[:ADMIN_CONNECTIONS])
