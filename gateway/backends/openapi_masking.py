"""Credentials taken out of answers that repeat them, in every form in which an answer may write them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

MASK = b"***"
COOKIE_OCTETS = "!#$%&'()*+-./:<=>?@[]^_`{|}~"  # RFC 6265, section 4.1.1, beside letters and digits
SHORT_ESCAPES = {"/": r"\/"} | {text: json.dumps(text)[1:-1] for text in '"\\\b\f\n\r\t'}

_plain = re.compile(r"[A-Za-z0-9._~-]+")  # what no encoder of JSON escapes


@lru_cache(1024)
def forms_of(secret: str) -> Sequence[bytes]:
    """A secret as it stands in headers, in URLs and in cookies."""
    forms = (secret, quote(secret, safe=""), quote(secret, safe=COOKIE_OCTETS))
    return [form.encode() for form in dict.fromkeys(forms)]


def masked(text: bytes, secrets: Sequence[bytes]) -> bytes:
    """A text without secrets, also where it is JSON that escapes some of their characters."""
    has_escapes = b"\\" in text
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
        if has_escapes and (escaped := _escaped(secret)) is not None and escaped.longest in text:
            text = escaped.pattern.sub(MASK, text)
    return text


class _Escaped:
    """A secret in JSON: what finds it, and the longest part of it that looks the same in all of its forms."""

    __slots__ = ("longest", "pattern")

    def __init__(self, secret: str) -> None:
        self.pattern = re.compile("".join(map(_any_form, secret)).encode())
        self.longest = max(_plain.findall(secret), key=len, default="").encode()


@lru_cache(1024)  # the credentials of some backends, and tokens of some callers
def _escaped(secret: bytes) -> _Escaped | None:
    """None for a secret that is never escaped, as most are."""
    text = secret.decode("utf-8", "replace")
    return None if _plain.fullmatch(text) else _Escaped(text)


def _any_form(character: str) -> str:
    """A pattern of a character in JSON: itself, a short escape, its number in hexadecimal digits of any case."""
    if _plain.match(character):
        return re.escape(character)
    units = character.encode("utf-16-be").hex()
    numbers = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    forms = (re.escape(character), numbers, re.escape(SHORT_ESCAPES.get(character, character)))
    return f"(?:{'|'.join(dict.fromkeys(forms))})"
