"""Texts of a document, which third parties wrote, as models may read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.core.model import Json, JsonObject
from gateway.protocols.common.texts import visible

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
    short = text[: most - 2]
    if not text[len(short)].isspace():
        short = short.rpartition(" ")[0] or short
    return f"{short.rstrip()} …"


MAX_MESSAGE = 500  # characters
MAX_PLAIN = 200  # characters of a text that is no JSON
MAX_FINDINGS = 8
MAX_WORD = 200  # characters of one finding

BLANKS = re.compile(r"\s+")
# Control characters, and those that make text read otherwise than it is written.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")

SENTENCE_MEMBERS = (
    "message",
    "Message",
    "error_description",
    "detail",
    "description",
    "error",
    "title",
    "reason",
    "msg",
)
FINDINGS = ("errors", "detail", "details", "validation", "violations", "invalid-params", "invalid_params")
WHERE = ("loc", "pointer", "field", "path", "location", "parameter", "property", "name", "param", "source")
WHAT = ("msg", "message", "detail", "description", "title", "reason", "code")


def one_line(text: str, most: int) -> str:
    """A text of a third party in one line of so many characters, without what cannot be seen."""
    plain = BLANKS.sub(" ", text[: 4 * most])
    plain = UNSEEN.sub("", plain).strip()
    return plain if len(plain) <= most else plain[: most - 2].rstrip() + " …"


def message_of(document: Json) -> str:
    """What the JSON of a refusal says, with what is wrong where; empty if that cannot be told."""
    if isinstance(document, str):
        return one_line(document, MAX_MESSAGE)
    if isinstance(document, list):
        return one_line("; ".join(_findings(document)), MAX_MESSAGE)
    if not isinstance(document, dict):
        return ""
    sentence, findings = _sentence(document), "; ".join(_all_findings(document))
    if findings and findings not in sentence:
        sentence = f"{sentence.rstrip('.')}: {findings}" if sentence else findings
    return one_line(sentence, MAX_MESSAGE)


def _sentence(document: JsonObject) -> str:
    """The one sentence: of problem details (RFC 9457), or of whatever member has one."""
    title, detail = document.get("title"), document.get("detail")
    if isinstance(title, str) and title and isinstance(detail, str) and detail:
        return detail if title in detail else f"{title}: {detail}"
    for name in ("error", "fault"):  # of Google, Stripe and OpenAI; of Apigee
        inner = document.get(name)
        if isinstance(inner, dict) and "message" not in document:
            return _first(inner) or str(inner.get("faultstring") or "")
    return _first(document)


def _first(document: JsonObject) -> str:
    return next((text for name in SENTENCE_MEMBERS if isinstance(text := document.get(name), str) and text.strip()), "")


def _all_findings(document: JsonObject) -> list[str]:
    inner = document.get("error")
    for holder in (document, inner if isinstance(inner, dict) else {}):
        for name in FINDINGS:
            listed = holder.get(name)
            if isinstance(listed, list | dict) and (findings := list(_findings(listed))):
                return findings
    return []


def _findings(listed: Json) -> Iterator[str]:
    """Findings as `where: what`: of a list (FastAPI, JSON:API, GitHub), or by what is wrong (Rails, .NET)."""
    if isinstance(listed, dict):
        pairs = list(listed.items())[:MAX_FINDINGS]
        entries = [
            (str(name), text) for name, texts in pairs for text in (texts if isinstance(texts, list) else [texts])
        ]
    else:
        entries = [("", inner) for inner in listed]
    for where, entry in entries[:MAX_FINDINGS]:
        what = entry
        if isinstance(entry, dict):
            where = where or next((place for name in WHERE if (place := _place(entry.get(name)))), "")
            what = next((value for name in WHAT if isinstance(value := entry.get(name), str) and value), None)
        if isinstance(what, str) and what.strip():
            yield one_line(f"{where}: {what}" if where else what, MAX_WORD)


def _place(where: Json) -> str:
    """Where a finding is: FastAPI's list without the `body` or `query` it begins with would name another argument."""
    if isinstance(where, list):
        return ".".join(str(part) for part in where if isinstance(part, str | int))
    if isinstance(where, dict):  # JSON:API
        return next((text for text in where.values() if isinstance(text, str)), "")
    return where if isinstance(where, str) else ""
