"""Texts of a document, which third parties wrote, as models may read them."""

from __future__ import annotations

import re

from gateway.dialects.texts import visible

MAX_READ = 16 * 1024  # characters of a text that are looked at
MAX_LENGTH = 2048  # characters of one description in a schema
MAX_ROUNDS = 8  # of removing markup, which may appear by removing some
COMMENT = re.compile(r"<!--[^<>]*-->")
# Elements of HTML; others in such brackets are names that a reader has to fill in, as in `refs/heads/<branch>`.
ELEMENTS = (
    "a|abbr|address|article|aside|audio|b|base|bdo|big|blockquote|body|br|button|canvas|caption|center|cite|code|col"
    "|colgroup|dd|del|details|dialog|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|frame|frameset"
    "|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|legend|li|link|main|map|mark|marquee|math|meta|nav"
    "|noscript|object|ol|optgroup|option|p|param|picture|pre|q|s|samp|script|section|select|small|source|span|strike"
    "|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea|tfoot|th|thead|title|tr|track|tt|u|ul|var"
    "|video|wbr"
)
TAG = re.compile(rf"</?(?:{ELEMENTS})(?:[\s/][^<>]*)?>", re.IGNORECASE)


def harmless(text: str, most: int = MAX_LENGTH) -> str:
    """A text without markup of HTML and without characters that do not show, cut between words.

    CommonMark is left as it is.
    """
    text = visible(text[:MAX_READ])
    for _ in range(MAX_ROUNDS if "<" in text else 0):
        before, text = text, TAG.sub("", COMMENT.sub("", text))
        if text == before:
            break
    else:
        text = text.replace("<", "") if TAG.search(text) else text  # somebody hides markup in markup
    return cut(text.strip(), most)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, cut between words."""
    if len(text) <= most:
        return text
    kept = text[: most - 2]
    if not text[len(kept)].isspace():
        kept = kept.rpartition(" ")[0] or kept
    return f"{kept.rstrip()} …"
