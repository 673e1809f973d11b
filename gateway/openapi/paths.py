"""The paths of requests: templates with values in them that stay where they are put, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from unicodedata import normalize
from urllib.parse import quote, unquote_to_bytes

from gateway.openapi.serialise import UnsendableError

MAX_DECODINGS = 8  # of a value: no chain of servers decodes it so often
LITERALS = "%:@!$&'()*+,;=~"  # of a template: `%` begins what is encoded already
DOTS = (".", "..")
CLIMBS = "is, or has as a part, '.' or '..', which means another path"

_placeholders = re.compile(r"\{([^{}]*)\}").split
_forbidden = re.compile(r"[\x00-\x1f\x7f-\x9f\\]").search  # Windows takes a backslash for a slash
_parts = re.compile(r"[/;]").split  # servers that know parameters of a segment cut it at the semicolon

Segment = tuple[str, ...]  # literal text and names of placeholders by turns; a literal alone has none


@lru_cache(4096)  # the operations of a few documents
def segments_of(template: str) -> tuple[Segment, ...]:
    """Splits a template at its slashes."""
    return tuple(
        tuple(part if at % 2 else quote(part, LITERALS) for at, part in enumerate(_placeholders(segment)))
        for segment in template.split("/")
    )


def filled(segment: Segment, texts: Mapping[str, str]) -> str:
    """One segment of a path, with encoded values in it."""
    return "".join([texts[part] if at % 2 else part for at, part in enumerate(segment)])


def is_harmless(segment: str) -> bool:
    """Whether a segment means the same to every server, as nearly all do."""
    return segment not in ("", *DOTS) and "%" not in segment and ";" not in segment


def check(segment: str, *, may_hold_slash: bool) -> None:
    """Raises UnsendableError for what means another path, or several segments, once decoded, however often."""
    if not segment:
        raise UnsendableError("is empty")
    for _ in range(MAX_DECODINGS):
        try:
            text = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError as exc:  # some servers read a dot from bytes that no UTF-8 has
            raise UnsendableError("holds percent signs with digits that encode no text") from exc
        if _forbidden(text):
            raise UnsendableError("holds a control character or a backslash")
        if "/" in text and not may_hold_slash:
            raise UnsendableError("holds a slash")
        if any(part.strip() in DOTS for part in _parts(normalize("NFKC", text))):
            raise UnsendableError(CLIMBS)
        if text == segment:
            return
        segment = text
    raise UnsendableError("holds percent signs that are encoded again and again")
