"""The rules for JSON that both sides of the gateway rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core import jsontext
from gateway.core.jsontext import MAX_DEPTH, JsonError


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + closing * depth


EXACT: list[tuple[bytes, Any]] = [
    (b"9" * 4300, 10**4300 - 1),
    (b"-" + b"9" * 4299, 1 - 10**4299),
    (b"9007199254740993", 2**53 + 1),
    (b"18446744073709551616", 2**64),
    (b"-9223372036854775809", -(2**63) - 1),
    (b"0.1", 0.1),
    (b"5e-324", 5e-324),
    (b"1e308", 1e308),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b'"\\u0000"', "\u0000"),
    ('"\U0001f469\u200d\U0001f680"'.encode(), "\U0001f469\u200d\U0001f680"),
    (b" [1 ,\n2\t]\r ", [1, 2]),
    (nested(MAX_DEPTH), json.loads(nested(MAX_DEPTH))),
    (b"[" + b",".join([b"[]"] * 1000) + b"]", [[]] * 1000),  # wide is not deep
    (b'"' + b"[{" * 1000 + b'"', "[{" * 1000),  # nor is text
]


@pytest.mark.parametrize(("text", "value"), EXACT, ids=lambda item: repr(item)[:30] if isinstance(item, bytes) else "")
def test_a_value_survives_exactly(text: bytes, value: Any) -> None:
    assert jsontext.decode(text) == value
    assert jsontext.decode(jsontext.encode(value)) == value


REFUSED = [
    *(b"9" * 4301, b"-" + b"9" * 4300, b"9" * 400 + b".5"),  # the sign counts
    *(b"1e999", b"-1e999", b"NaN", b"Infinity", b"-Infinity", b"[nan]", b"01", b"+1", b"1.", b".5", b"0x10"),
    *(b'"\\ud800"', b'"\\ud800x"', b'"\\ude00\\ud83d"', b'{"\\ud800":1}'),
    *(b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'{"\xff":1}'),  # the third is a surrogate in UTF-8's clothes
    *(b"\xef\xbb\xbf{}", '"x"'.encode("utf-16"), b'"\x00"', b'"\n"'),  # the first has a byte order mark
    *(b"", b" ", b"'x'", b"[1,]", b'{"a":1,}', b"{a:1}", b"[1] x", b"1 2", b"{}{}", b"[1", b"// x\n1", b"tru"),
    *(nested(MAX_DEPTH + 1), nested(MAX_DEPTH + 1, b'{"a":', b"}").replace(b"}", b"1}", 1)),
    *(nested(100_000), b"[" * 100_000),
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text)[:30])
def test_a_text_that_is_no_json_of_these_rules_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        jsontext.decode(text)
    assert 0 < len(str(caught.value)) < 100


HALF_PAIRS = (b'{"a":"\\ud800"}', b'"\\uDBFFx"', b'{"\\ud800":"\\ud83d\\ude00"}')
ENDS = (b'{"a":', b'["\\ud83d\\ude00"')
REASONS = [*((text, "surrogate") for text in HALF_PAIRS), *((text, r"^Input data was truncated$") for text in ENDS)]


@pytest.mark.parametrize(("text", "reason"), REASONS, ids=repr)
def test_half_a_surrogate_pair_is_not_called_an_early_end_alone(text: bytes, reason: str) -> None:
    with pytest.raises(JsonError, match=reason):
        jsontext.decode(text)


def test_the_last_of_duplicate_keys_wins() -> None:
    assert jsontext.encode(jsontext.decode(b'{"a":1,"b":2,"a":3}')) == b'{"a":3,"b":2}'


def test_a_refusal_does_not_quote_the_text() -> None:
    with pytest.raises(JsonError) as caught:
        jsontext.decode(b'{"token": canary}')
    assert "canary" not in str(caught.value)


def test_a_whole_double_stays_a_double() -> None:
    assert jsontext.encode(jsontext.decode(b"[1.0,1]")) == b"[1.0,1]"


WIDE: dict[str, tuple[bytes, bool]] = {
    "short": (b"[" * 16_000, False),
    "a long text": (b'{"a":"' + b"x" * 8_000_000 + b'"}', False),
    "prose": (b'{"a":"' + b"well, " * 5_000 + b'"}', False),
    "few numbers": (b"[" + b"123456," * 9_000 + b"0]", False),
    "empty objects": (b"[" + b"{}," * 10_000 + b"{}]", True),
    "nested": (b"[" + (b"[" * 50 + b"]" * 50 + b",") * 300 + b"0]", True),
    "many numbers": (b"[" + b"0," * 100_000 + b"0]", True),
    "long numbers": (b"[" + (b"9" * 4_000 + b",") * 50 + b"0]", True),
    "escapes": (b'{"a":"' + b"\\n" * 1_000_000 + b'"}', True),
    "larger than any": (b'"' + b"x" * (11 * 1024 * 1024) + b'"', True),
}


@pytest.mark.parametrize(("text", "wide"), WIDE.values(), ids=WIDE)
def test_a_text_is_wide_if_reading_it_would_hold_up_the_loop(text: bytes, wide: bool) -> None:
    assert jsontext.is_wide(text) == wide


HALVES = {
    rb'"\ud800"': "\ufffd",
    rb'"a\udc00b"': "a\ufffdb",
    rb'"\uDBFF\n"': "\ufffd\n",
    rb'"\ud800\ud83d\ude00"': "\ufffd\U0001f600",
    rb'"\ud83d\ude00\ude00"': "\U0001f600\ufffd",
    rb'"\\ud800\ud800"': "\\ud800\ufffd",
    rb'"\\\ud800"': "\\\ufffd",
    b'"\xed\xa0\x80"': "\ufffd",
    rb'{"\udfff": ["\ud800"]}': {"\ufffd": ["\ufffd"]},
}


@pytest.mark.parametrize(("text", "value"), HALVES.items(), ids=[repr(text) for text in HALVES])
def test_half_a_character_in_an_answer_costs_no_more_than_itself(text: bytes, value: Any) -> None:
    assert jsontext.decode_answer(text) == value
    with pytest.raises(JsonError):
        jsontext.decode(text)


@pytest.mark.parametrize("text", [b'"\xff"', b"NaN", rb'"\ud800', rb'"\ud800" 1', b'"\0\\ud800"', rb'"\ud8"', b""])
def test_other_flaws_of_an_answer_remain(text: bytes) -> None:
    with pytest.raises(JsonError):
        jsontext.decode_answer(text)


@pytest.mark.parametrize("half", [b"\\ud83d", b"\xed\xa0\xbd"], ids=["escape", "bytes"])
def test_halves_are_looked_for_here_in_short_texts_only(half: bytes) -> None:
    """A MiB of them takes half a second; longer texts are left to another process."""
    short, long = (b'"%b"' % (half * count) for count in (10, jsontext.ALWAYS_HERE_BYTES))
    assert jsontext.decode_answer(short) == "\ufffd" * 10
    with pytest.raises(JsonError):
        jsontext.decode_answer(long)
    assert jsontext.may_have_halves(long)
    assert jsontext.decode(jsontext.without_halves(long)) == "\ufffd" * jsontext.ALWAYS_HERE_BYTES


@pytest.mark.parametrize(
    ("value", "many"),
    [
        ("1,2,3\n" * 100_000, False),  # nothing but commas, of one string
        ({"a": ["[" * 1_000_000]}, False),
        ([0] * 100_000, True),
        ([[]] * 10_000, True),
        ({"a": [{"b": [1]}] * 5_000}, True),
        ([10**4000] * 100, True),
        ([10**4000], False),
    ],
    ids=repr,
)
def test_values_count_and_not_the_commas_in_texts(value: Any, many: bool) -> None:
    assert jsontext.holds_many(value) is many
