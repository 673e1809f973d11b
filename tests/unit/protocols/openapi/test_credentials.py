"""Credentials in answers, as JSON and URLs of other programs write them."""

from __future__ import annotations

import json

import pytest

from gateway.protocols.openapi.credentials import forms_of, masked

KEYS = ["plain-key-0123456789", "k3y/with+signs==&<more>", "k\"e'y\\`\u00e9\U0001f511-of-ours"]


def like_dotnet(text: str) -> str:
    """As System.Text.Json escapes: all that HTML could take for something else, in capitals."""
    return "".join(c if c.isascii() and c not in "\"&'+<>\\`" else f"\\u{ord(c):04X}" for c in text)


WRITERS = {
    "as it is": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "ascii": lambda text: json.dumps(text)[1:-1],
    "php": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "go": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    "rails": lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("=", "\\u003d").replace("+", "\\u002B"),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_key_is_masked_however_json_writes_it(key: str, writer: str) -> None:
    text = f'{{"a": "x\\n", "echo": "<{WRITERS[writer](key)}>", "b": 1}}'
    assert masked(text.encode(), forms_of(key)) == b'{"a": "x\\n", "echo": "<***>", "b": 1}'


def test_keys_in_urls_are_masked_and_others_stay() -> None:
    key = "k3y/with+signs==&<more>"
    assert masked(b"/a?k=k3y%2Fwith%2Bsigns%3D%3D%26%3Cmore%3E&x", forms_of(key)) == b"/a?k=***&x"
    assert masked(like_dotnet("k3y/with+signs==&<more>").encode(), forms_of(key)) == b"***"
    for other in (b"k3y\\/with+signs=", b"k3y-with+signs==&<more>", b"\\", b""):
        assert masked(other, forms_of(key)) is other
