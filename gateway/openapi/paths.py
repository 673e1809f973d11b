"""The paths of requests: templates with values in them that stay where they are put, whatever they hold."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote_plus, unquote_to_bytes

from gateway.openapi.serialise import UnsendableError, encoder

MAX_DECODINGS = 8  # of a value: no chain of servers decodes it so often
DOTS = (".", "..")
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
CLIMBS = "is, or has as a part, '.' or '..', which means another path"

_MARK = "\0"  # where a placeholder stood: no path has one
_encoded = encoder("/%:@!$&'()*+,;=")  # `%` begins what is encoded already
_query = encoder("/%:@!$'()*,;=&?")
_forbidden = re.compile(r"[\x00-\x1f\x7f-\x9f\\]").search  # Windows takes a backslash for a slash
_parts = re.compile(r"[/;]").split  # servers that know parameters of a segment cut it at the semicolon


class Segment(NamedTuple):
    """A segment of a template that has placeholders: `frame` has a `%s` for each of `names`."""

    frame: str
    names: tuple[str, ...]


@lru_cache(4096)  # the operations of a few documents
def read_template(template: str) -> tuple[str, tuple[Segment, ...]]:
    """Reads a template as a frame with a `%s` for each segment that has placeholders, and these segments."""
    parts = PLACEHOLDER.split(template)
    literals, names = parts[::2], iter(parts[1::2])
    frames, segments = [], []
    for segment in _MARK.join(literals).split("/"):
        frame = "%s".join(_encoded(literal).replace("%", "%%") for literal in segment.split(_MARK))
        inside = tuple(islice(names, segment.count(_MARK)))
        frames.append("%s" if inside else frame)
        if inside:
            segments.append(Segment(frame, inside))
    return "/".join(frames), tuple(segments)


def split_path(key: str) -> tuple[str, str]:
    """The path in a key of a document's `paths`, and the query that is the same in all requests.

    A fragment is never sent: documents tell operations with one path apart by it.
    """
    path, _, query = key.partition("#")[0].partition("?")
    return path, _query(query)


def names_in(query: str) -> list[str]:
    """The names of the parameters in a query."""
    return [unquote_plus(pair.partition("=")[0]) for pair in query.split("&") if pair]


def written(path: str) -> str:
    """A path without placeholders as it is sent."""
    return _encoded(path)


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
