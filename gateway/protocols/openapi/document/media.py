"""Media types as headers and documents name them (RFC 9110, section 8.3)."""

from __future__ import annotations

import re

TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64}")  # without parameters, in lower case
CHARSET = re.compile(r';\s*charset\s*=\s*"?([A-Za-z0-9_.:-]{1,40})', re.IGNORECASE)
# Charsets of real services. Among the codecs of Python are some that take long, and some that are no charsets.
KNOWN_CHARSET = re.compile(
    r"utf-?(8|16|32)([-_]?[bl]e)?|us-ascii|ascii|latin-?1|iso-?8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]"
    r"|shift[-_]jis|euc-(jp|kr)|big5|gb2312|gbk|gb18030|macintosh",
    re.IGNORECASE,
)
JSON_TYPES = frozenset({"application/json", "text/json"})
LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
LINES |= {"application/jsonlines", "application/x-json-stream", "text/jsonl"}
SEQUENCE = "application/json-seq"
TEXTS = frozenset(
    {"application/" + kind for kind in ("xml", "yaml", "x-yaml", "javascript", "ecmascript", "csv", "sql")}
)
TEXTS |= {"application/x-www-form-urlencoded", "application/toml", "application/graphql", "application/rtf"}
TEXT_SUFFIXES = ("+xml", "+yaml", "+text")


def essence(media_type: str) -> str:
    """The type and subtype alone, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def charset_of(media_type: str) -> str:
    """The charset that a media type names; empty if it names none."""
    match = CHARSET.search(media_type)
    return match[1] if match else ""


def is_json(kind: str) -> bool:
    """Whether a type without parameters is one JSON value (RFC 6839, section 3.1)."""
    return kind in JSON_TYPES or kind.endswith("+json")


def is_values(kind: str) -> bool:
    """Whether a type without parameters is JSON: one value, or several."""
    return is_json(kind) or kind in LINES or kind == SEQUENCE


def is_text(kind: str) -> bool:
    """Whether a type without parameters is text that people can read."""
    return kind.startswith("text/") or kind in TEXTS or kind.endswith(TEXT_SUFFIXES)


def is_page(kind: str) -> bool:
    """Whether a type without parameters is a page for a browser."""
    return kind in ("text/html", "application/xhtml+xml")


def decoded(body: bytes, media_type: str) -> str | None:
    """The text of a body by its charset, UTF-8 if it names none; None if it is not text in that."""
    charset = charset_of(media_type) or "utf-8"
    if not KNOWN_CHARSET.fullmatch(charset):
        return None
    try:
        return body.decode("utf-8-sig" if charset.lower() in ("utf-8", "utf8") else charset)
    except (UnicodeDecodeError, LookupError):
        return None
