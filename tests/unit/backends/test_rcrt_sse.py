"""Events out of bytes: lines cut anywhere, endings of every kind, and nothing larger than the limit."""

from __future__ import annotations

import pytest

from gateway.backends.rcrt_sse import EventParser

LIMIT = 64


def events(*chunks: bytes) -> list[bytes]:
    parser = EventParser(LIMIT)
    return [event for chunk in chunks for event in parser.feed(chunk)]


EVENTS = [
    (b'data: {"a":1}\n\n', [b'{"a":1}']),
    (b'data:{"a":1}\n\n', [b'{"a":1}']),  # the space may be missing
    (b"data:  x\n\n", [b" x"]),  # one space, not all
    (b"data: a\r\n\r\n", [b"a"]),
    (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    (b"data: a\ndata: b\n\n", [b"a\nb"]),
    (b": ping\n\ndata: a\n\n", [b"a"]),
    (b": ping\ndata: a\n\n", [b"a"]),
    (b"event: x\nid: 7\nretry: 5\ndata: a\n\n", [b"a"]),
    (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    (b"database: a\n\n", []),
    (b"data: a\n", []),  # not complete
    (b"data\n\n", [b""]),
    (b"\n\n\n", []),
    ("data: Grüße, 世界\n\n".encode(), ["Grüße, 世界".encode()]),
]


@pytest.mark.parametrize(("stream", "expected"), EVENTS, ids=lambda item: repr(item)[:30])
def test_a_stream_means_the_same_however_it_is_cut(stream: bytes, expected: list[bytes]) -> None:
    """Spec: WHATWG HTML, 9.2.6."""
    assert events(stream) == expected
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == expected
    for cut in range(len(stream)):
        assert events(stream[:cut], stream[cut:]) == expected


TOO_LARGE = [
    b"data: " + b"x" * LIMIT + b"\n\n",
    b"data: x\n" * 10 + b"\n",
    b"event: " + b"x" * LIMIT + b"\ndata: x\n\n",
]


@pytest.mark.parametrize("large", TOO_LARGE, ids=["line", "event", "other field"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_over_the_limit_is_left_out_and_counted(large: bytes, size: int) -> None:
    parser = EventParser(LIMIT)
    stream = b"data: a\n\n" + large + b"data: b\n\n"
    found = [event for i in range(0, len(stream), size) for event in parser.feed(stream[i : i + size])]
    assert (found, parser.skipped) == ([b"a", b"b"], 1)


def test_no_more_is_kept_than_the_limit() -> None:
    parser = EventParser(LIMIT)
    for _ in range(1000):
        assert parser.feed(b"x" * LIMIT) == []
    assert len(parser._line) <= LIMIT


def test_comments_without_end_cost_an_event_nothing() -> None:
    assert events(*[b": still here\n"] * 100, b"data: a\n\n") == [b"a"]
