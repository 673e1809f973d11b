"""Takes a signed token apart: the compact form of RFC 7515, section 7.1. Nothing is verified here.

PyJWT's own reader looks at each character in Python: a token of 8 KiB, good or bad, costs it 465 us and this 60 us, a
usual one 30 us and this 3 us. Signatures are still verified by PyJWT (see `signatures`).
"""

from __future__ import annotations

import binascii
from binascii import a2b_base64
from functools import lru_cache
from typing import NamedTuple

from gateway import jsontext
from gateway.model import JsonObject

# From base64url to base64 (RFC 4648, sections 5 and 4); what only the latter has, or would be padding, is in neither.
STANDARD = bytes.maketrans(b"-_+/=", b"+/!!!")
PADDING = (b"", b"===", b"==", b"=")  # by how many letters there are beyond groups of four; one alone is never right
# What the last letter may be by the same number: its low bits, four or two of them, mean nothing and are zero.
LAST = (b"", b"", b"AQgw", b"AEIMQUYcgkosw048")
# An issuer has a key or two, and all tokens signed with one have the same header, of a hundred bytes. Headers
# of unknown tokens evict each other; all together take less than 1 MB.
HEADERS = 64
MAX_HEADER = 512  # bytes; longer ones are read each time


class MalformedError(ValueError):
    """What is no signed token, or one that asks for what we do not know."""


class Parts(NamedTuple):
    """`signed` is what the signature is over."""

    header: JsonObject
    claims: JsonObject
    signed: bytes
    signature: bytes


def take_apart(token: bytes) -> Parts:
    """Reads `header.claims.signature`. Raises MalformedError."""
    texts = token.split(b".", 3)
    if len(texts) != 3:
        raise MalformedError("has not three parts")
    head, claims, signature = texts
    header = _known_header(head) if len(head) <= MAX_HEADER else _header(head)
    return Parts(header, _object(_bytes(claims)), token[: -len(signature) - 1], _bytes(signature))


def _header(text: bytes) -> JsonObject:
    header = _object(_bytes(text))
    # RFC 7515, section 4.1.11: a token with an extension that we do not know must be refused; RFC 7797: as with `b64`.
    if "crit" in header or header.get("b64", True) is not True:
        raise MalformedError("has a critical header")
    return header


_known_header = lru_cache(HEADERS)(_header)  # what it returns is not to be changed: many tokens share it


def _bytes(text: bytes) -> bytes:
    """Decodes base64url as RFC 7515, section 2, has it: no padding, no line breaks, one text for the same bytes."""
    beyond = len(text) % 4
    try:
        data = a2b_base64(text.translate(STANDARD) + PADDING[beyond], strict_mode=True)
    except binascii.Error as exc:
        raise MalformedError("is not in base64url") from exc
    if beyond and text[-1] not in LAST[beyond]:
        raise MalformedError("is not in base64url")
    return data


def _object(text: bytes) -> JsonObject:
    try:
        document = jsontext.decode(text)
    except jsontext.JsonError as exc:
        raise MalformedError("holds no JSON") from exc
    if not isinstance(document, dict):
        raise MalformedError("holds no JSON object")
    return document
