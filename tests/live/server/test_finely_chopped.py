"""Bodies that are dear to parse, or mostly not body: others get their turns, and every byte counts."""

from __future__ import annotations

import json

import pytest
from starlette.types import Receive, Scope, Send

from gateway.net.sliced_input import MAX_PIECES, SLICE_BYTES
from tests.live.server.harness import Application, calling, request, respond, serving

pytestmark = pytest.mark.anyio

BODY = bytes(range(32, 127)) * 600  # 57 KB: 340 KB in chunks of one byte
CHUNKED = request("/", "Transfer-Encoding: chunked", method="POST")
CHOPPED = CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
SMALLEST_CHUNK = len(b"1\r\nx\r\n")


async def test_a_body_in_chunks_of_one_byte_leaves_turns_of_the_loop_to_others() -> None:
    pieces: list[bytes] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            pieces.append(message["body"])
            if not message["more_body"]:
                return await respond(send, 200, b"{}")

    async with serving(note) as addresses, calling(addresses.public) as wire:
        wire.say(CHOPPED + request("/next"))
        assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
    assert b"".join(pieces) == BODY
    assert max(map(len, pieces)) <= MAX_PIECES + SLICE_BYTES // SMALLEST_CHUNK + 1


async def test_it_arrives_whole_also_behind_a_request_that_still_runs() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/hold") + CHOPPED + request("/last"))
        await application.until(lambda: application.seen == ["/hold"])
        application.gate.set()
        assert [(await wire.answer()).status for _ in range(1)] == [200]
        assert json.loads((await wire.answer()).body)["body"].encode() == BODY
        assert json.loads((await wire.answer()).body)["path"] == "/last"


async def test_a_caller_who_leaves_in_the_middle_of_it_is_forgotten() -> None:
    application = Application()
    async with serving(application) as addresses:
        async with calling(addresses.public) as wire:
            wire.say(CHOPPED[: len(CHOPPED) // 2])
            await application.until(lambda: application.seen == ["/"])
        await application.until(lambda: application.ended == ["/"])


async def test_chunk_extensions_count() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(CHUNKED)
        await application.until(lambda: application.seen == ["/"])
        wire.say(b"1;%b\r\nx\r\n" % (b"a" * 200) * 50)
        answer = await wire.answer()
        assert (answer.status, answer.message) == (431, "The framing of the body is too large.")


async def test_extensions_in_proportion_to_their_chunks_are_no_offence() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(CHUNKED + b"100;sum=0123456789abcdef\r\n%b\r\n" % (b"x" * 256) * 200 + b"0\r\n\r\n")
        assert (await wire.answer()).status == 200
