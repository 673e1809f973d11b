"""Texts of a document as models may read them: third parties wrote them."""

from __future__ import annotations

import re

MAX_LENGTH = 2048  # characters of one description in a schema

# Controls but tab and line feed, and what is not seen: marks of direction, and the tags that hide text in text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def cleaned(text: str, most: int = MAX_LENGTH) -> str:
    """A text without what readers do not see, cut between two words if it is long."""
    text = _UNSEEN.sub("", text).strip() if not text.isascii() or not text.isprintable() else text.strip()
    if len(text) <= most:
        return text
    kept = text[: most - 2]
    return f"{kept[: kept.rfind(' ')] if ' ' in kept[most // 2 :] else kept} …"
