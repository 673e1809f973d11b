"""The strict reading of a head, rule by rule; the whole of it runs over sockets in tests/live/server."""

from __future__ import annotations

import json

import pytest

from gateway.server.head import Headers, Refused, check_fields, head_size, refusal, split_target

HOST = (b"host", b"a.test")


def test_a_plain_head_is_returned_by_name() -> None:
    assert check_fields([HOST, (b"x", b"1"), (b"x", b"2")], "1.1") == {b"host": b"a.test", b"x": b"2"}


@pytest.mark.parametrize(
    ("headers", "version", "status"),
    [
        ([HOST, (b"x", b"1"), HOST], "1.0", 400),
        ([(b"host", b"a" * 300)], "1.1", 400),
        ([(b"host", b"a:")], "1.1", 400),
        ([(b"host", b"a:123456")], "1.1", 400),
        ([(b"host", b"a\xff")], "1.1", 400),
        ([HOST], "0.9", 505),
        ([HOST], "2.0", 505),
        ([HOST] + [(b"x", b"1")] * 100, "1.1", 431),
    ],
)
def test_a_head_with_two_readings_is_refused(headers: Headers, version: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        check_fields(headers, version)
    assert refused.value.status == status


@pytest.mark.parametrize("host", [b"a", b"a_b.test", b"127.0.0.1:80", b"[::1]", b"[2001:db8::1]:8080", b"xn--a.test"])
def test_every_form_of_host_is_taken(host: bytes) -> None:
    assert check_fields([(b"host", host), (b"transfer-encoding", b"Chunked")], "1.1")[b"host"] == host


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (b"/", (b"/", b"")),
        (b"/a/b?c=d?e", (b"/a/b", b"c=d?e")),
        (b"//a.test/b", (b"//a.test/b", b"")),  # a path, however much it looks like an authority
        (b"http://a.test/b?c", (b"/b", b"c")),
        (b"HTTPS://A.TEST/b", (b"/b", b"")),
        (b"http://a.test", (b"/", b"")),
        (b"http://a.test?c", (b"/", b"c")),
    ],
)
def test_a_target_splits_into_path_and_query(target: bytes, parts: tuple[bytes, bytes]) -> None:
    assert split_target(target, b"a.test") == parts


@pytest.mark.parametrize("target", [b"", b"a.test:80", b"http:///b", b"http://u@a.test/"])
def test_any_other_target_is_refused(target: bytes) -> None:
    with pytest.raises(Refused):
        split_target(target, b"a.test")


def test_the_size_of_a_head_is_what_its_lines_weigh() -> None:
    assert head_size(b"/a", [(b"host", b"a"), (b"x", b"")]) == len("/ahost: a\r\nx: \r\n")


def test_a_refusal_is_a_whole_answer_that_ends_the_connection() -> None:
    head, _, body = refusal(431, "Too large.").partition(b"\r\n\r\n")
    assert json.loads(body) == {"message": "Too large.", "code": "head_too_large"}
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"toolgate-code: head_too_large",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
    ]
