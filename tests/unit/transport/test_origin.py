"""Origins: what a URL says about where to connect."""

from __future__ import annotations

import pytest

from gateway.transport import Origin

GOOD = [
    ("http://tools.example", Origin("http", "tools.example", 80), b"tools.example"),
    ("https://tools.example/base?x=1", Origin("https", "tools.example", 443), b"tools.example"),
    ("HTTP://Tools.Example:8080/", Origin("http", "tools.example", 8080), b"tools.example:8080"),
    ("https://tools.example:80", Origin("https", "tools.example", 80), b"tools.example:80"),
    ("http://127.0.0.1:9101", Origin("http", "127.0.0.1", 9101), b"127.0.0.1:9101"),
    ("http://[::1]:9101/tools", Origin("http", "::1", 9101), b"[::1]:9101"),
    ("https://[2001:DB8::1]", Origin("https", "2001:db8::1", 443), b"[2001:db8::1]"),
]


@pytest.mark.parametrize(("url", "origin", "authority"), GOOD)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin, authority: bytes) -> None:
    assert Origin.parse(url) == origin
    assert origin.authority == authority


def test_an_origin_reads_as_a_url() -> None:
    assert str(Origin("https", "::1", 8443)) == "https://[::1]:8443"
    assert Origin.parse(str(Origin("https", "::1", 8443))) == Origin("https", "::1", 8443)


BAD = [
    "tools.example",
    "ftp://tools.example",
    "//tools.example",
    "http://",
    "http:///path",
    "http://:80",
    "http://user@tools.example",
    "http://user:word@tools.example",
    "http://tools.example:0",
    "http://tools.example:65536",
    "http://tools.example:port",
    "http://[::1",
    "http://tools.example\r\nHost: other",
    "http://tools .example",
    " http://tools.example",
    "http://b\u00fccher.example",
]


@pytest.mark.parametrize("url", BAD)
def test_a_url_that_names_no_clear_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Origin.parse(url)
