"""Reading on after an offer to change the protocol, as RFC 9110 section 7.8 lets a server do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from httptools import HttpRequestParser

from gateway.server.head import Refused


class LastBody:
    """Hands on the body of one request, and takes nothing after it."""

    def __init__(self, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.on_body = on_body
        self.on_message_complete = on_end
        self._begun = False

    def on_message_begin(self) -> None:
        """Ends the parsing where a second request begins."""
        if self._begun:
            raise Refused(400, "This connection takes no more requests.")
        self._begun = True


def body_parser(
    headers: Iterable[tuple[bytes, bytes]], on_body: Callable[[bytes], None], on_end: Callable[[], None]
) -> HttpRequestParser:
    """Makes a parser for the body alone.

    The first parser takes all that follows the head for the other protocol, and what arrives later for a new
    request: a body could pass for one. This one is told how the body is framed.
    """
    parser = HttpRequestParser(LastBody(on_body, on_end))
    framing = [b"%b: %b\r\n" % field for field in headers if field[0] in (b"content-length", b"transfer-encoding")]
    parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
    return parser
