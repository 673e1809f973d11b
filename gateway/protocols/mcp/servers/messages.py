"""Messages of MCP servers outside the response to a call: what they are, before their content is read."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.wire import is_number

MAX_ELICITATION_BYTES = 64 * 1024  # of the params of a request for elicitation
MAX_BEGIN = 512  # bytes of a message, in which it says what it is unless it is odd
NOTIFICATION = re.compile(
    rb"""\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:"[^"\\]*"|\d+)\s*,\s*)?"method"\s*:"""
)  # or a request of the server's
ABOUT_ACCESS = (401, 403, 408, 429)


class Envelope(Struct):
    """A message of the server's, so far as to tell what it is: its content stays text."""

    id: Json = None
    method: str | None = None
    params: Raw = Raw(b"{}")
    error: Raw = Raw(b"")


_read_envelope = msgspec.json.Decoder(Envelope).decode


def is_about_access(status: int) -> bool:
    """Whether an answer is about credentials or load, as in any protocol, and says nothing about MCP."""
    return status in ABOUT_ACCESS or status >= 500


def message_of_event(data: bytes) -> Envelope | None:
    """What an event holds; None for what is no message, such as the empty first event of some servers."""
    if not data.strip():
        return None
    try:
        return _read_envelope(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        if len(data) > jsontext.ALWAYS_HERE_BYTES:
            return None
        whole = jsontext.without_halves(data)  # an answer is read again, whole
    try:
        return None if whole is data else _read_envelope(whole)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def may_be_answer(data: bytes) -> bool:
    """Whether a long event that cannot be read here may be a response, whose reader puts halves of characters right."""
    return len(data) > jsontext.ALWAYS_HERE_BYTES and NOTIFICATION.match(data, 0, MAX_BEGIN) is None


def is_answer(message: Envelope, id_: int) -> bool:
    """Whether a message is the response to a request; an error without an id is, too: the request was unreadable."""
    if message.id is None:
        return bytes(message.error) not in (b"", b"null")
    return is_number(message.id, id_)


def read_url_to_open(params: Raw) -> JsonObject | None:
    """The URL that a request for elicitation has for the user; None if it wants something else."""
    if len(bytes(params)) > MAX_ELICITATION_BYTES:
        return None
    try:
        document = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return mcp_results.url_to_open(document, "1")
