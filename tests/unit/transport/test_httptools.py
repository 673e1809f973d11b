"""What both kinds of connections use of httptools and llhttp beyond their documentation: fails when that changes."""

from __future__ import annotations

import httptools
import pytest


class Reply:
    """Records what the parser calls, and raises `error` at the body if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[object] = []
        self._error = error

    def on_header(self, name: bytes, value: bytes) -> None:
        self.calls.append((name, value))

    def on_headers_complete(self) -> None:
        self.calls.append("head")

    def on_body(self, chunk: bytes) -> None:
        self.calls.append(chunk)
        if self._error is not None:
            raise self._error

    def on_message_complete(self) -> None:
        self.calls.append("end")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked \r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n"
CALLS = [(b"Transfer-Encoding", b"chunked "), "head", b"ab", (b"X", b"y"), "end"]


@pytest.mark.parametrize("make", [bytes, memoryview])
def test_any_buffer_is_parsed_and_each_part_reported_in_order(make: type) -> None:
    reply = Reply()
    httptools.HttpResponseParser(reply).feed_data(make(CHUNKED))
    assert reply.calls == CALLS


def test_what_a_callback_raises_stops_the_parser_and_is_the_context_of_its_error() -> None:
    error = KeyError("ours")
    reply = Reply(error)
    with pytest.raises(httptools.HttpParserError) as caught:
        httptools.HttpResponseParser(reply).feed_data(CHUNKED)
    assert caught.value.__context__ is error
    assert reply.calls == CALLS[:3]


def test_an_upgrade_is_an_error_of_its_own_that_says_where_the_rest_begins() -> None:
    reply = Reply()
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade) as caught:
        httptools.HttpResponseParser(reply).feed_data(head + b"rest")
    assert caught.value.args == (len(head),)
    assert not isinstance(caught.value, httptools.HttpParserError)


@pytest.mark.parametrize(("more", "expected"), [(b"", True), (b"Connection: close\r\n", False)])
def test_a_parser_reads_one_reply_after_another_and_knows_at_each_end_whether_one_may_follow(
    more: bytes, expected: bool
) -> None:
    class Ending(Reply):
        def on_message_complete(self) -> None:
            self.calls.append(parser.should_keep_alive())

    raw, reply = b"HTTP/1.1 200 OK\r\n" + more + b"Content-Length: 0\r\n\r\n", Ending()
    parser = httptools.HttpResponseParser(reply)
    parser.feed_data(raw)
    if expected:
        parser.feed_data(raw)
    assert [call for call in reply.calls if isinstance(call, bool)] == [expected] * (1 + expected)
