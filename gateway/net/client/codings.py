"""Bodies in a content coding (RFC 9110, section 8.4): none is asked for, and some servers and proxies use one.

What is decoded counts against the limit of the body, whatever it took on the wire, and is decoded piece by piece.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

from gateway.net.client.errors import Kind, TransportError

Header = tuple[bytes, bytes]

PIECE_BYTES = 64 * 1024  # decoded at once
HERE_BYTES = 4 * PIECE_BYTES  # of a body that is decoded between two turns of the event loop, which takes 1 ms
OF_CODINGS = (b"content-encoding", b"content-length")  # headers that do not hold for what was decoded
GZIP, DEFLATE = (b"gzip", b"x-gzip"), b"deflate"
FREE_MEMBERS, MEMBER_BYTES = 256, 1024  # a body has no more than so many, and one for each so many bytes of it
MAGIC = b"\x1f\x8b"
GZIP_BITS = 16 + zlib.MAX_WBITS  # with the header of gzip


def coding_of(headers: Sequence[Header]) -> bytes | None:
    """The coding of a body if it is one that can be decoded here; None for a plain body, and for any other."""
    codings = [
        word
        for name, value in headers
        if name == b"content-encoding"
        for part in value.lower().split(b",")
        if (word := part.strip()) not in (b"", b"identity")
    ]
    return codings[0] if len(codings) == 1 and codings[0] in (*GZIP, DEFLATE) else None


def decoded_headers(headers: Sequence[Header]) -> tuple[Header, ...]:
    """The headers of a body that was decoded."""
    return tuple([header for header in headers if header[0] not in OF_CODINGS])


class Inflater:
    """Decodes one body of at most `max_body` bytes, in the order in which it comes."""

    def __init__(self, coding: bytes, max_body: float) -> None:
        self._coding = coding
        self._max_body = max_body
        self._size = self._members = 0
        self._inflate: zlib._Decompress | None = None
        self._is_plain = False  # although it should not be
        self._fed, self._at = b"", 0  # and how far that was taken
        self._tail = b""  # of what was taken, which is decoded next
        self._is_full = False  # the last piece, so that more may be decoded already

    def feed(self, data: bytes) -> None:
        """Takes the next bytes; `piece` is to be called until it returns nothing."""
        self._fed, self._at = self._fed[self._at :] + data, 0

    def piece(self) -> bytes:
        """The next decoded bytes, at most PIECE_BYTES; empty if more has to be fed. Raises TransportError."""
        while self._is_full or self._tail or self._at < len(self._fed):
            if self._inflate is None and not self._is_plain:
                if len(self._fed) < len(MAGIC):
                    return b""
                self._begin(self._fed)
            out = self._decode(self._next())
            self._size += len(out)
            if self._size > self._max_body:
                message = f"The reply is larger than {self._max_body:.0f} bytes."
                raise TransportError(Kind.TOO_LARGE, message, sent=True)
            if out:
                return out
        return b""

    def end(self) -> bytes:
        """What is left when all was fed and decoded. Raises TransportError for a body that was cut off."""
        if self._inflate is not None and not self._inflate.eof:
            raise TransportError(Kind.PROTOCOL, "The reply ends in the middle of its content coding.", sent=True)
        return self._fed[self._at :]  # one byte at most, which is in no coding

    def _begin(self, data: bytes) -> None:
        """Some bodies are not coded as they say; `deflate` should have the header of zlib, which some leave out."""
        if self._coding == DEFLATE:
            has_header = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        elif data.startswith(MAGIC):
            self._inflate = zlib.decompressobj(GZIP_BITS)
        else:
            self._is_plain = True

    def _next(self) -> bytes:
        data, self._tail = self._tail, b""
        if not (data or self._is_full):
            data = self._fed[self._at : self._at + PIECE_BYTES]
            self._at += len(data)
        return data

    def _decode(self, data: bytes) -> bytes:
        """Decodes as much of this as makes one piece; the rest of it becomes the tail."""
        inflate = self._inflate
        if inflate is None:
            return data
        if inflate.eof:  # a file of gzip may have several members (RFC 1952, 2.2); what else follows is padding
            if self._coding == DEFLATE or not data.startswith(MAGIC):
                return b""
            self._members += 1
            if self._members > FREE_MEMBERS + self._size // MEMBER_BYTES:  # 20 bytes begin one and need not say a thing
                raise TransportError(Kind.PROTOCOL, "The reply is in too many small gzip members.", sent=True)
            inflate = self._inflate = zlib.decompressobj(GZIP_BITS)
        try:
            out = inflate.decompress(data, PIECE_BYTES)
        except zlib.error as exc:
            message = "The reply is not in the content coding that it names."
            raise TransportError(Kind.PROTOCOL, message, sent=True) from exc
        self._tail = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        self._is_full = len(out) == PIECE_BYTES and not inflate.eof
        return out


async def decoded(inflater: Inflater, body: bytes) -> bytes:
    """Decodes a whole body; a long one in a thread. Raises TransportError."""
    parts = bytearray()
    inflater.feed(body)
    is_long = len(body) > HERE_BYTES
    while not is_long and (piece := inflater.piece()):
        parts += piece
        is_long = len(parts) >= HERE_BYTES
    if is_long:
        await asyncio.to_thread(_decode_rest, inflater, parts)
    parts += inflater.end()
    return bytes(parts)


def _decode_rest(inflater: Inflater, parts: bytearray) -> None:
    while piece := inflater.piece():
        parts += piece
