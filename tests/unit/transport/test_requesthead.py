"""Request heads: what is written, and what is refused before anything is."""

from __future__ import annotations

import pytest

from gateway.transport import Kind, TransportError
from gateway.transport.requesthead import encode_head


def test_a_head_is_the_request_line_the_host_the_fields_and_the_framing() -> None:
    head = encode_head(b"POST", b"/tools/call?a=b", b"h:1", ((b"X-A", b"caf\xc3\xa9\ty"),), body_bytes=3)
    assert head == b"POST /tools/call?a=b HTTP/1.1\r\nhost: h:1\r\nX-A: caf\xc3\xa9\ty\r\ncontent-length: 3\r\n\r\n"


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
    assert head == method + b" / HTTP/1.1\r\nhost: h\r\n" + framing + b"\r\n"


@pytest.mark.parametrize("method", [b"", b"G T", b"GET\r\n", b"GET /", b"G\xc3T", b"GET:"])
def test_a_method_that_is_no_token_is_refused(method: bytes) -> None:
    refuse(method=method)


@pytest.mark.parametrize(
    "target",
    [
        b"",
        b"tools",
        b"*",
        b"http://other/",
        b"/a b",
        b"/a\r\nX: y",
        b"/a\nb",
        b"/a\x00",
        b"/\x7f",
        b"/\xc3\xa9",
        b"/a#b",
    ],
)
def test_a_target_that_is_no_plain_path_is_refused(target: bytes) -> None:
    refuse(target=target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"", b"x"),
        (b"X A", b"x"),
        (b"X:", b"x"),
        (b"X\r\n", b"x"),
        (b"X\xff", b"x"),
        (b"X", b"a\r\nEvil: b"),
        (b"X", b"a\nb"),
        (b"X", b"a\rb"),
        (b"X", b"a\x00b"),
        (b"X", b"a\x7fb"),
        (b"Content-Length", b"5"),
        (b"TRANSFER-ENCODING", b"chunked"),
        (b"Host", b"other"),
        (b"Connection", b"close"),
        (b"Expect", b"100-continue"),
        (b"Upgrade", b"h2c"),
    ],
)
def test_a_header_that_could_break_or_reframe_the_request_is_refused(name: bytes, value: bytes) -> None:
    refuse(name=name, value=value)


@pytest.mark.parametrize("host", [b"", b"h\r\nX: y", b"h\x00"])
def test_a_host_that_could_break_the_head_is_refused(host: bytes) -> None:
    refuse(host=host)


def refuse(
    *, method: bytes = b"GET", target: bytes = b"/", host: bytes = b"h", name: bytes = b"X", value: bytes = b"y"
) -> None:
    with pytest.raises(TransportError) as caught:
        encode_head(method, target, host, ((name, value),))
    assert caught.value.kind is Kind.INVALID
    assert caught.value.sent is False
    assert "Evil" not in str(caught.value)
