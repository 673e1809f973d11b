"""The parsers of requests: httptools, which is llhttp, as strict as it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from httptools import HttpParserError, HttpRequestParser

from gateway.server.head import Refused

# llhttp is strict unless told otherwise; this keeps it so whatever the defaults of httptools become.
STRICT = dict.fromkeys(
    (
        "lenient_headers",
        "lenient_chunked_length",
        "lenient_keep_alive",
        "lenient_transfer_encoding",
        "lenient_version",
        "lenient_data_after_close",
        "lenient_optional_lf_after_cr",
        "lenient_optional_cr_before_lf",
        "lenient_optional_crlf_after_chunk",
        "lenient_spaces_after_chunk_size",
    ),
    False,
)


def strict_parser(handler: object) -> HttpRequestParser:
    """Makes a parser that calls the `on_...` methods of the handler."""
    parser = HttpRequestParser(handler)
    parser.set_dangerous_leniencies(**STRICT)
    return parser


def body_parser(
    headers: Iterable[tuple[bytes, bytes]], on_body: Callable[[bytes], None], on_end: Callable[[], None]
) -> HttpRequestParser:
    """Makes a parser for the body of a request that offered another protocol (RFC 9110 section 7.8 lets us decline).

    The first parser takes everything behind such a head for the other protocol, and what arrives later for a new
    request: a body could pass for one. So this one is given the framing of the body.
    """
    parser = strict_parser(_LastBody(on_body, on_end))
    framing = [b"%b: %b\r\n" % field for field in headers if field[0] in (b"content-length", b"transfer-encoding")]
    parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
    return parser


class _LastBody:
    """Passes on the body of one request, and refuses another request."""

    def __init__(self, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.on_body = on_body
        self.on_message_complete = on_end
        self._begun = False

    def on_message_begin(self) -> None:
        if self._begun:
            raise Refused(400, "This connection takes no more requests.")
        self._begun = True


def refused(error: HttpParserError) -> Refused:
    """Why the parser stopped: what a handler has raised, or that the request is malformed.

    Without the traceback: its frames lead back to it, and such a cycle keeps the connection and all it has read in
    memory until the collector finds it.
    """
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause.with_traceback(None)
    return Refused(400, "The request is not valid HTTP/1.1.")
