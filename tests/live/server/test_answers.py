"""Answers keep the framing right, in order, and whole or visibly broken."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress

import pytest

from gateway.net.server import sweeper
from gateway.net.server.options import MAX_UNREAD_BYTES
from tests.live.server.harness import DEADLINE_S, SCRIPTS, Application, calling, request, serving

pytestmark = pytest.mark.anyio


async def test_the_application_sees_the_request_as_it_was_sent() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/a%20b?c=%20d", "X-One: \t1\t ", method="PUT", body=b"body"))
        answer = await wire.answer()
        seen = json.loads(answer.body)
        assert (seen["method"], seen["path"], seen["query"], seen["body"]) == ("PUT", "/a b", "c=%20d", "body")
        assert seen["headers"] == [["host", "tools.test"], ["x-one", "1"], ["content-length", "4"]]
        assert (seen["http_version"], seen["scheme"]) == ("1.1", "http")
        assert "server" not in answer.headers
        assert "date" not in answer.headers


async def test_pipelined_requests_are_answered_in_order() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        paths = ["/hold", "/b", "/early", "/d"]
        wire.say(b"".join(request(path, method="POST", body=path.encode()) for path in paths))
        await application.until(lambda: application.seen == ["/hold"])
        application.gate.set()
        answers = [await wire.answer() for _ in paths]
        assert [answer.status for answer in answers] == [200, 200, 401, 200]
        assert [json.loads(answer.body)["body"] for answer in answers if answer.status == 200] == ["/hold", "/b", "/d"]
        wire.say(request("/after"))
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize(
    ("bad", "status"),
    [(b"GET / HTTP/1.1\r\n\r\n", 400), (b"rubbish\r\n\r\n", 400), (request("/", "X: " + "a" * 9000), 431)],
    ids=["no Host", "rubbish", "too large"],
)
async def test_a_bad_request_in_the_pipeline_is_refused_after_the_good_ones(bad: bytes, status: int) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/hold") + request("/b") + bad + request("/never"))
        await application.until(lambda: application.seen == ["/hold"])
        application.gate.set()
        assert [(await wire.answer()).status for _ in range(3)] == [200, 200, status]
        assert await wire.rest() == b""
        assert application.seen == ["/hold", "/b"]


async def test_a_queued_request_whose_body_breaks_never_runs() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/hold") + request("/b", "Transfer-Encoding: chunked", method="POST") + b"zz\r\n")
        await application.until(lambda: application.seen == ["/hold"])
        application.gate.set()
        assert [(await wire.answer()).status for _ in range(2)] == [200, 400]
        assert application.seen == ["/hold"]


async def test_an_application_whose_request_breaks_is_told_and_no_longer_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "LINGER_S", 10 * DEADLINE_S)  # else the end of the connection would end it, too
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/listens", "Transfer-Encoding: chunked", method="POST") + b"4\r\nbody\r\n")
        await application.until(lambda: application.seen == ["/listens"])
        wire.say(b"zz\r\n")
        assert (await wire.answer()).status == 400
        await application.until(lambda: application.ended == ["/listens"])
        assert await wire.rest() == b""


async def test_the_pipeline_is_bounded() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/hold") + request() * 100)
        await application.until(lambda: application.seen == ["/hold"])
        application.gate.set()
        assert [(await wire.answer()).status for _ in range(18)] == [200] * 17 + [503]
        assert await wire.rest() == b""


async def test_a_body_is_asked_for_when_the_application_wants_it() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        for _ in range(2):
            wire.say(request("/", "Expect: 100-continue", "Content-Length: 4", method="POST"))
            assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            wire.say(b"body")
            assert json.loads((await wire.answer()).body)["body"] == "body"


async def test_a_body_that_came_without_being_asked_for_is_read_all_the_same() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        for path in ("/", "/early", "/"):
            wire.say(request(path, "Expect: 100-continue", method="POST", body=b"body"))
            assert (await wire.answer()).status == (401 if path == "/early" else 200)


async def test_a_body_nobody_asked_for_cannot_pass_for_the_next_request(caplog: pytest.LogCaptureFixture) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(request("/early", "Expect: 100-continue", "Content-Length: 100", method="POST"))
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        wire.say(request("/smuggled"))
        assert await wire.is_cut()
        assert application.seen == ["/early"]
        assert "failed" not in caplog.text


async def test_after_an_early_answer_the_rest_of_a_small_body_is_skipped() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/early", "Content-Length: 1000", method="POST"))
        assert (await wire.answer()).status == 401
        wire.say(b"x" * 1000 + request("/next"))
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize(
    ("framing", "connection"),
    [
        ("Content-Length: 1000", None),
        (f"Content-Length: {MAX_UNREAD_BYTES}", None),
        (f"Content-Length: {MAX_UNREAD_BYTES + 1}", "close"),
        ("Transfer-Encoding: chunked", "close"),
    ],
)
async def test_an_early_answer_says_whether_the_connection_ends(framing: str, connection: str | None) -> None:
    """A caller who is not told sends its next request into a connection that is being closed."""
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/early", framing, method="POST"))
        answer = await wire.answer()
        assert (answer.status, answer.headers.get("connection")) == (401, connection)


async def test_after_an_early_answer_a_large_body_ends_the_connection_and_the_answer_is_read() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/early", "Content-Length: 4000000", method="POST") + b"x" * 3_000_000)
        assert (await wire.answer()).status == 401
        assert await wire.rest() == b""


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
@pytest.mark.parametrize("together", [True, False])
async def test_an_offer_to_upgrade_is_ignored_and_the_body_read(offer: str, together: bool) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        head = request("/", "Connection: Upgrade", f"Upgrade: {offer}", "Content-Length: 4", method="POST")
        wire.say(head + b"body" if together else head)
        await application.until(lambda: application.seen == ["/"])
        wire.say((b"" if together else b"body") + request("/smuggled"))
        answer = await wire.answer()
        assert json.loads(answer.body)["body"] == "body"
        assert answer.headers["connection"] == "close"
        assert await wire.is_cut()
        assert application.seen == ["/"]


async def test_what_follows_an_offer_to_upgrade_does_not_become_its_body() -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        offer = request("/", "Connection: Upgrade", "Upgrade: h2c", method="POST", body=b"body")
        wire.say(offer + request("/smuggled", method="POST", body=b"more"))
        assert json.loads((await wire.answer()).body)["body"] == "body"
        assert await wire.is_cut()
        assert application.seen == ["/"]


async def test_a_failing_application_is_answered_for() -> None:
    async with serving(Application()) as addresses:
        for path in ("/fails", "/splits", "/lies"):
            async with calling(addresses.public) as wire:
                wire.say(request(path))
                answer = await wire.answer()
                assert (answer.status, answer.message) == (500, "The gateway failed to answer.")
                assert await wire.rest() == b""


async def test_an_answer_cut_short_looks_cut_short() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(request("/breaks-off"))
        said = b""
        with suppress(ConnectionResetError):
            said = await wire.rest()
        assert b"0\r\n\r\n" not in said
        assert b" 500 " not in said


async def test_a_streamed_answer_is_chunked_and_for_http_1_0_ends_with_the_connection() -> None:
    async with serving(Application()) as addresses:
        async with calling(addresses.public) as wire:
            wire.say(request("/streams"))
            assert (await wire.answer()).body == b"onetwo"
        async with calling(addresses.public) as wire:
            wire.say(b"GET /streams HTTP/1.0\r\n\r\n")
            assert "content-length" not in (await wire.answer()).headers
            assert await wire.rest() == b"onetwo"


@pytest.mark.parametrize("path", ["/no-content", "/no-content-of-no-length"])
async def test_no_content_has_no_length(path: str) -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        for _ in range(2):
            wire.say(request(path))
            answer = await wire.answer()
            assert (answer.status, answer.body) == (204, b"")
            assert answer.headers.keys().isdisjoint({"content-length", "transfer-encoding"})


async def test_a_head_request_gets_no_body() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        for _ in range(2):
            wire.say(request(method="HEAD"))
            assert (await wire.answer("HEAD")).status == 200


async def test_a_large_answer_to_callers_who_do_not_read_is_in_memory_once() -> None:
    size = len(SCRIPTS["/huge"][1]["body"])
    async with serving(Application()) as addresses, calling(addresses.public) as one, calling(addresses.public) as two:
        tracemalloc.start()
        try:
            for wire in (one, two):
                wire.say(request("/huge"))
                await wire.reader.readuntil(b"\r\n\r\n")
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken < size
