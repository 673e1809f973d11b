"""Request heads: what is written, and what is refused before anything is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.net.client import Kind, TransportError
from gateway.net.client.requesthead import encode_head


def test_a_head_is_the_request_line_the_host_the_fields_and_the_framing() -> None:
    head = encode_head(b"POST", b"/tools/call?a=b", b"h:1", ((b"X-A", b"caf\xc3\xa9\ty"),), body_bytes=3)
    start = b"POST /tools/call?a=b HTTP/1.1\r\nhost: h:1\r\naccept-encoding: identity\r\n"
    assert head == start + b"X-A: caf\xc3\xa9\ty\r\ncontent-length: 3\r\n\r\n"


def test_a_coding_that_is_asked_for_replaces_the_usual_one() -> None:
    head = encode_head(b"GET", b"/", b"h", ((b"Accept-Encoding", b"gzip"),))
    assert head == b"GET / HTTP/1.1\r\nhost: h\r\nAccept-Encoding: gzip\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "size", "framing"),
    [
        (b"POST", 0, b"content-length: 0\r\n"),
        (b"PUT", 0, b"content-length: 0\r\n"),
        (b"GET", 0, b""),
        (b"HEAD", 0, b""),
        (b"GET", 2, b"content-length: 2\r\n"),
    ],
)
def test_an_empty_body_is_announced_where_one_is_expected(method: bytes, size: int, framing: bytes) -> None:
    head = encode_head(method, b"/", b"h", (), body_bytes=size)
    assert head == method + b" / HTTP/1.1\r\nhost: h\r\naccept-encoding: identity\r\n" + framing + b"\r\n"


METHODS = [b"", b"G T", b"GET\r\n", b"GET /", b"G\xc3T", b"GET:"]
TARGETS = [
    b"",
    b"tools",
    b"*",
    b"http://o/",
    b"/a b",
    b"/a\r\nX: y",
    b"/a\nb",
    b"/a\0",
    b"/\x7f",
    b"/\xc3\xa9",
    b"/a#b",
]
HOSTS = [b"", b"h\r\nX: y", b"h\x00"]
NOT_NAMES = [b"", b"X A", b"X:", b"X\r\n", b"X\xff"]
OURS = [b"Content-Length", b"TRANSFER-ENCODING", b"Host", b"Connection", b"Expect", b"Upgrade"]
VALUES = [b"a\r\nEvil: b", b"a\nb", b"a\rb", b"a\x00b", b"a\x7fb"]


@pytest.mark.parametrize(
    "parts",
    [
        *({"method": method} for method in METHODS),
        *({"target": target} for target in TARGETS),
        *({"host": host} for host in HOSTS),
        *({"headers": ((name, b"y"),)} for name in NOT_NAMES + OURS),
        *({"headers": ((b"X", value),)} for value in VALUES),
        *({"more": ((b"X", value),)} for value in VALUES),
    ],
    ids=repr,
)
def test_what_could_break_or_reframe_the_request_is_refused_before_anything_is_sent(parts: dict[str, Any]) -> None:
    with pytest.raises(TransportError) as caught:
        encode_head(**{"method": b"GET", "target": b"/", "host": b"h", "headers": ()} | parts)
    assert (caught.value.kind, caught.value.sent) == (Kind.INVALID, False)
    assert "Evil" not in str(caught.value)
