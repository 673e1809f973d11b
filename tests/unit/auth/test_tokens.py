"""The form of a token: RFC 7515, sections 2 and 7.1."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest

from gateway.auth.tokens import MalformedError, take_apart
from tests.support.authenticators import CLAIMS, SECRET, bearer


def encoded(document: Any) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=")


def test_a_token_comes_apart_as_another_library_put_it_together() -> None:
    token = jwt.encode(CLAIMS, SECRET, "HS256", headers={"kid": "å"}).encode()
    parts = take_apart(token)
    whole = jwt.decode_complete(token, SECRET, ["HS256"])
    assert (parts.header, parts.claims, parts.signature) == (whole["header"], whole["payload"], whole["signature"])
    assert parts.signed + b"." + encoded(parts.signature) == token


def test_an_empty_signature_is_a_part_too() -> None:
    parts = take_apart(b"e30.e30.")
    assert parts == ({}, {}, b"e30.e30", b"")


GOOD = bearer().headers[b"authorization"].removeprefix(b"Bearer ")
FIRST, SECOND, THIRD = GOOD.split(b".")
MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "one part": FIRST,
    "two parts": FIRST + b"." + SECOND,
    "four parts": GOOD + b".",
    "five parts": GOOD + b"." + GOOD,
    "a leading dot": b"." + GOOD,
    "padding": FIRST + b"." + SECOND + b"." + THIRD + b"=",
    "padding within": b"e30=.e30.AA",
    "a line break": b"e30.e3\n0.AA",
    "a blank": b"e30.e3 0.AA",
    "the other alphabet": b"e30.e30.++//",
    "no base64 at all": b"e30.e30.!!",
    "a letter too many": b"e30.e30.AAAAA",
    "bits that mean nothing": b"e30.e30.AB",
    "bytes beyond ASCII": b"e30.e30.\xff\xff",
    "a NUL": b"e30.e30.AA\0",
    "no JSON": encoded(b"{") + b".e30.AA",
    "no object": encoded([]) + b".e30.AA",
    "claims that are no object": b"e30." + encoded("x") + b".AA",
    "no UTF-8": b"e30." + encoded(b'{"sub": "\xff"}') + b".AA",
    "no number": b"e30." + encoded(b'{"exp": NaN}') + b".AA",
    "an endless numeral": b"e30." + encoded(b'{"exp": ' + b"9" * 5000 + b"}") + b".AA",
    "endless nesting": b"e30." + encoded(b'{"a": ' + b"[" * 5000) + b".AA",
    "JSON with something behind it": b"e30." + encoded(b"{} {}") + b".AA",
    "an extension": encoded({"crit": ["exp"], "exp": 1}) + b".e30.AA",
    "no extension": encoded({"crit": []}) + b".e30.AA",
    "a payload that is not encoded": encoded({"b64": False}) + b".e30.AA",
}


@pytest.mark.parametrize("token", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_signed_token_does_not_come_apart(token: bytes) -> None:
    with pytest.raises(MalformedError):
        take_apart(token)


def test_a_part_is_taken_only_as_an_encoder_writes_it() -> None:
    """Whatever its last letter is: with two or three letters beyond groups of four, some bits of it mean nothing."""
    written = {
        encoded(data): data for data in (bytes(zeros) + bytes([last]) for zeros in range(3) for last in range(256))
    }
    for begin in (b"", b"A", b"AA", b"AAA", b"AAAA"):
        for last in range(256):
            text = begin + bytes([last])
            if text in written:
                assert take_apart(b"e30.e30." + text).signature == written[text]
            else:
                with pytest.raises(MalformedError):
                    take_apart(b"e30.e30." + text)


@pytest.mark.parametrize("kid", ["short", "l" * 2000], ids=["remembered", "too long to be"])
def test_a_header_is_read_the_same_each_time(kid: str) -> None:
    token = encoded({"alg": "none", "kid": kid}) + b".e30.AA"
    assert [take_apart(token).header for _ in range(2)] == [{"alg": "none", "kid": kid}] * 2
    refused = encoded({"alg": "none", "kid": kid, "crit": []}) + b".e30.AA"
    for _ in range(2):
        with pytest.raises(MalformedError):
            take_apart(refused)
