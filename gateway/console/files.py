"""The files of the page, read once: HTML, styles and scripts without a build step."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FIRST = "index.html"


class File(NamedTuple):
    """One file as it is served; `etag` changes with its content."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> dict[str, File]:
    """All files by name."""
    found = {}
    for each in (files("gateway.console") / "static").iterdir():
        suffix = f".{each.name.rpartition('.')[2]}"
        if suffix in TYPES:
            content = each.read_bytes()
            found[each.name] = File(content, TYPES[suffix], f'"{sha256(content).hexdigest()[:16]}"')
    return found
