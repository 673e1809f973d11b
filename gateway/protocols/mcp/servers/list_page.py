"""One page of an MCP server's list of tools, taken apart as text, so that another process can do it."""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from gateway.core.jsontext import encode
from gateway.protocols.common.entries import begin_of, mended

MAX_TTL_MS = 1e15
NO_LIST = "its answer holds no list of tools"


class ListPage(Struct, frozen=True):
    """What a page says beside its tools, whose text is between two places of the page; empty if it lists none.

    `failure`: why it is no page. `digest` is of its tools, in hex.
    """

    failure: str = ""
    cursor: str | int | None = None  # numbers are sent back as they are, although cursors are strings
    ttl_ms: float | None = None
    digest: str = ""
    begin: int = 0
    end: int = 0


class _PageResult(Struct):
    tools: Raw = Raw(b"")
    cursor: str | int | None = field(name="nextCursor", default=None)
    ttl_ms: Any = field(name="ttlMs", default=None)


class _PageError(Struct):
    code: int = 0
    message: str = ""


class _PageResponse(Struct):
    """Some servers write `null` for whichever of the two is not there."""

    result: _PageResult | None = None
    error: _PageError | None = None


_read_response = msgspec.json.Decoder(_PageResponse).decode
decode_page = msgspec.json.Decoder(ListPage).decode


def is_page(body: bytes) -> bool:
    """Whether `read_page` takes a body as it is, without a search for halves of characters, 0.7 us an escape."""
    try:
        _read_response(body.removeprefix(BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read_page(body: bytes) -> tuple[bytes, ...]:
    """Returns a Page as JSON; behind it the text in which its places are, unless that is the body itself."""
    texts: tuple[bytes, ...] = ()
    text = body
    try:
        try:
            response = _read_response(body.removeprefix(BOM_UTF8))
        except msgspec.DecodeError:
            text = mended(body.removeprefix(BOM_UTF8))
            response, texts = _read_response(text), (text,)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (encode(ListPage(failure=NO_LIST)),)
    if (error := response.error) is not None:
        return (encode(ListPage(failure=f"it answers tools/list with error {error.code}: {error.message[:200]}")),)
    result = response.result
    if result is None or begin_of(result.tools) != b"[":
        return (encode(ListPage(failure=NO_LIST)),)
    inner = bytes(result.tools).strip()[1:-1].strip()
    begin = text.index(inner)  # where the same text stands before, it is as good
    digest = hashlib.sha256(inner).hexdigest()
    return encode(ListPage("", result.cursor, _duration(result.ttl_ms), digest, begin, begin + len(inner))), *texts


def _duration(value: Any) -> float | None:
    """A lifetime that can be one; servers write other things, too."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= MAX_TTL_MS else None
