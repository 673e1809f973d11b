"""Server-sent events: fields, line endings, cuts anywhere, and nothing larger than the limit (WHATWG HTML, 9.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.sse import EventParser, SseEvent

LIMIT = 64


def events(*chunks: bytes) -> list[SseEvent]:
    parser = EventParser(LIMIT)
    return [event for chunk in chunks for event in parser.feed(chunk)]


EVENTS = [
    (b'data: {"a":1}\n\n', [SseEvent(b'{"a":1}')]),
    (b'data:{"a":1}\n\n', [SseEvent(b'{"a":1}')]),  # the space may be missing
    (b"data:  x\n\n", [SseEvent(b" x")]),  # one space is removed, not all
    (b"data: a\r\n\r\n", [SseEvent(b"a")]),
    (b"data: a\r\rdata: b\r\r", [SseEvent(b"a"), SseEvent(b"b")]),
    (b"data: a\ndata: b\n\n", [SseEvent(b"a\nb")]),
    (b"data\ndata\n\n", [SseEvent(b"\n")]),
    (b"data: a\n\ndata: b\n", [SseEvent(b"a")]),  # the last one is not complete
    (b"data\n\n", [SseEvent(b"")]),
    (b"\n\n\n", []),
    (b": ping\n\ndata: a\n\n", [SseEvent(b"a")]),
    (b"data: a\n: ping\ndata: b\n\n", [SseEvent(b"a\nb")]),
    (b"event: add\ndata: a\n\ndata: b\n\n", [SseEvent(b"a", "add"), SseEvent(b"b")]),
    (b"event: add\n\ndata: b\n\n", [SseEvent(b"b")]),  # an event without data is none
    (b"event\ndata: a\n\n", [SseEvent(b"a", "message")]),
    (b"id: 7\nretry: 3000\ndata: a\n\nid\ndata: b\n\n", [SseEvent(b"a"), SseEvent(b"b")]),
    (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(b"a")]),
    (b"\xef\xbbdata: a\n\n", []),  # half a byte order mark is part of the name
    (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [SseEvent(b"a")]),  # as is one that comes later
    (b"database: a\nDATA: b\n data: c\n\n", []),
    ("event: Grüße\ndata: 世界\n\n".encode(), [SseEvent("世界".encode(), "Grüße")]),
    (b"event: \xff\ndata: \xff\n\n", [SseEvent(b"\xff", "\ufffd")]),
]


@pytest.mark.parametrize(("stream", "expected"), EVENTS, ids=lambda item: repr(item)[:30])
def test_a_stream_means_the_same_however_it_is_cut(stream: bytes, expected: list[SseEvent]) -> None:
    assert events(stream) == expected
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == expected
    for cut in range(len(stream)):
        assert events(stream[:cut], b"", stream[cut:]) == expected


PIECES = [
    *(b"data", b"event", b"id", b"retry", b":", b" ", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\0", b"7", b"x" * 30)
]


@given(st.lists(st.sampled_from(PIECES) | st.binary(min_size=1), max_size=60), st.data())
def test_any_stream_has_the_same_events_whole_and_in_pieces(pieces: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    whole, cut = EventParser(LIMIT), EventParser(LIMIT)
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [event for chunk in chunks for event in cut.feed(chunk)] == whole.feed(stream)
    assert cut.skipped == whole.skipped


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
    found = [event.data for i in range(0, len(stream), size) for event in parser.feed(stream[i : i + size])]
    assert (found, parser.skipped) == ([b"a", b"b"], 1)


def test_an_event_may_have_just_the_limit() -> None:
    data = b"x" * (LIMIT - len(b"data:"))
    assert events(b"data:" + data + b"\n\n") == [SseEvent(data)]
    assert events(b"data:" + data + b"x\n\n") == []


@pytest.mark.parametrize("start", [b"x", b"data: x", b":"])
def test_no_more_is_kept_than_the_limit(start: bytes) -> None:
    parser = EventParser(LIMIT)
    for _ in range(1000):
        assert parser.feed(start + b"x" * LIMIT) == []
    assert len(parser._line) <= LIMIT


def test_comments_of_any_size_and_number_cost_an_event_nothing() -> None:
    comments = [b": still here\n"] * 100 + [b":" + b"x" * 2 * LIMIT + b"\n"]
    assert events(b"data: a\n", *comments, b"\n") == [SseEvent(b"a")]
