"""What two parties could read in two ways is refused and the connection closed (RFC 9112 section 11.2)."""

from __future__ import annotations

import pytest

from tests.live.server.harness import Application, calling, request, serving

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": GET + b"Host: b\r\n\r\n",
    "two equal Hosts": GET + b"host: a\r\n\r\n",
    "empty Host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "two hosts in one": b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "Host with a user": b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "two Hosts over HTTP/1.0": b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
    "Host too long": b"GET / HTTP/1.1\r\nHost: " + b"a" * 300 + b"\r\n\r\n",
    "Host without its port": b"GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
    "port of six digits": b"GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n",
    "byte beyond ASCII in Host": b"GET / HTTP/1.1\r\nHost: a\xff\r\n\r\n",
    "Host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "length and coding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "two equal lengths": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "length with plus": POST + b"Content-Length: +5\r\n\r\nhello",
    "negative length": POST + b"Content-Length: -1\r\n\r\nhello",
    "hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "length with a space": POST + b"Content-Length: 5 5\r\n\r\nhello",
    "length with an underscore": POST + b"Content-Length: 1_0\r\n\r\nhellohello",
    "empty length": POST + b"Content-Length:\r\n\r\nhello",
    "length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    "unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity coding": POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "gzip then chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "empty coding": POST + b"Transfer-Encoding:\r\n\r\n0\r\n\r\n",
    "coding after a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "coding over HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded header": GET + b"X: a\r\n b\r\n\r\n",
    "space before the first header": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF after a header": GET + b"X: a\nY: b\r\n\r\n",
    "bare LF at the end": GET + b"\n",
    "bare CR in a header": GET + b"X: a\rY: b\r\n\r\n",
    "bare CR after the request line": b"GET / HTTP/1.1\rHost: a\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "space in a name": GET + b"X Y: a\r\n\r\n",
    "empty name": GET + b": a\r\n\r\n",
    "no colon": GET + b"X\r\n\r\n",
    "NUL in a value": GET + b"X: a\x00b\r\n\r\n",
    "NUL in a name": GET + b"X\x00: a\r\n\r\n",
    "NUL in the target": b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "control character in a value": GET + b"X: a\x01b\r\n\r\n",
    "tabs in the request line": b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n",
    "lower-case method": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment in the target": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "backslash as target": b"GET \\a HTTP/1.1\r\nHost: a\r\n\r\n",
    "byte beyond ASCII in the target": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "asterisk as target": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "URL of another host": b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "URL with a user": b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "URL without Host": b"GET http://b/ HTTP/1.0\r\n\r\n",
    "URL of another scheme": b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunk size with minus": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunk size with 0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size with a space": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": CHUNKED + b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "chunk size ended by LF": CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "chunk extension ended by LF": CHUNKED + b"5;a\nhello\r\n0\r\n\r\n",
    "chunk without a line end": CHUNKED + b"5\r\nhello0\r\n\r\n",
    "chunk longer than it says": CHUNKED + b"5\r\nhelloX\r\n0\r\n\r\n",
}


async def test_every_ambiguous_request_is_refused_and_what_follows_it_is_never_read() -> None:
    application = Application()
    async with serving(application) as addresses:
        for name, data in REFUSED.items():
            async with calling(addresses.public) as wire:
                wire.say(data + request("/smuggled"))
                answer = await wire.answer()
                assert (answer.status, answer.headers["connection"]) == (400, "close"), name
                assert answer.message, name
                assert await wire.rest() == b"", name
        assert "/smuggled" not in application.seen


async def test_every_ambiguous_request_is_refused_byte_by_byte_too() -> None:
    application = Application()
    async with serving(application) as addresses:
        for name, data in REFUSED.items():
            async with calling(addresses.public) as wire:
                for index in range(len(data)):
                    wire.say(data[index : index + 1])
                wire.say(request("/smuggled"))
                assert (await wire.answer()).status == 400, name
        assert "/smuggled" not in application.seen


# Each leads to the path /x.
TAKEN = {
    "Host with an underscore": b"GET /x HTTP/1.1\r\nHost: a_b.test\r\n\r\n",
    "HTTP/1.0 without Host": b"GET /x HTTP/1.0\r\n\r\n",
    "URL of the same host": b"GET http://A.test:80/x HTTP/1.1\r\nHost: a.test:80\r\n\r\n",
    "IPv6 host": b"GET /x HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
    "empty lines first": b"\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "chunk extension": b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nz\r\n0\r\n\r\n",
    "blanks behind values": b"POST /x HTTP/1.1\r\nHost: a \t\r\nContent-Length: 1 \r\n\r\nz",
    "upper-case coding": b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n1\r\nz\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", TAKEN)
async def test_what_is_unusual_but_clear_is_taken(name: str) -> None:
    application = Application()
    async with serving(application) as addresses, calling(addresses.public) as wire:
        wire.say(TAKEN[name])
        assert (await wire.answer()).status == 200
        assert application.seen == ["/x"]


async def test_a_request_behind_one_that_closes_the_connection_is_never_run() -> None:
    """RFC 9112 section 9.6. uvicorn lets its parser go on there; a blank line behind a body is taken, as of old."""
    application = Application()
    closing = request("/first", "Connection: close", method="POST", body=b"x")
    async with serving(application) as addresses:
        for behind in (b"", b"\r\n", request("/smuggled"), b"GET /smu"):
            async with calling(addresses.public) as wire:
                wire.say(closing + behind)
                answer = await wire.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert await wire.rest() == b""
        assert application.seen == ["/first"] * 4


async def test_trailers_do_not_become_headers() -> None:
    async with serving(Application()) as addresses, calling(addresses.public) as wire:
        wire.say(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.say(b"1\r\nz\r\n0\r\nAuthorization: Bearer forged\r\n\r\n")
        answer = await wire.answer()
        assert answer.status == 200
        assert b"forged" not in answer.body
