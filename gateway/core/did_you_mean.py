"""Suggests a known word for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LOOKED_AT = 64  # characters; words of ours are shorter


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when one of the known words is close, else nothing."""
    close = difflib.get_close_matches(word[:LOOKED_AT], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
