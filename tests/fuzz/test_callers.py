"""Tokens and preferences of callers, and what Redis keeps: whatever they hold, it is read, ignored or refused."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.auth.tokens import MalformedError, take_apart
from gateway.calls.preference import MAX_WAIT_S, read_preference
from gateway.calls.records import CallMetadata, metadata_of, pack, pack_metadata
from gateway.calls.status import view_of_record
from gateway.core.model import CallKey, ToolResult
from gateway.core.sealing import Digester, Sealer
from gateway.pipeline.callbacks import CallbackTokens
from gateway.pipeline.challenges import ChallengeLinks, ServerChallenge
from gateway.state.port import CallState
from gateway.state.records import Records
from tests.fuzz.documents import damaged_bytes
from tests.support.authenticators import handmade

SOME = settings(max_examples=80, deadline=None)
KEYS = ["a key of the state, thirty-two characters or more"]
CHALLENGES = ChallengeLinks(KEYS, lambda: "https://tools.example", lifetime_s=60.0, clock=lambda: 0.0)
CALLBACKS = CallbackTokens(Digester(KEYS, "callback"))
RECORDS = Records(Sealer(KEYS, "state"))
ANY_TEXT = st.text()  # of a path, percent-decoded: what is no UTF-8 was replaced
TOKEN = handmade({"alg": "HS256", "typ": "JWT"}, {"sub": "ada", "exp": 1}, key=b"k" * 32).headers[b"authorization"][7:]


@SOME
@given(damaged_bytes([TOKEN]) | st.binary() | st.binary().map(lambda body: b"." + body + b"."))
def test_any_bytes_are_a_token_or_malformed(text: bytes) -> None:
    with suppress(MalformedError):
        parts = take_apart(text)
        assert isinstance(parts.header, dict)
        assert text.startswith(parts.signed + b".")


@SOME
@given(
    st.lists(st.sampled_from([b"wait=", b"respond-async", b",", b";", b'"', b"\\", b"9", b" ", b"\xff"])).map(b"".join)
)
@example(b"wait=" + b"9" * 5000)
def test_any_preference_is_read_or_ignored(header: bytes) -> None:
    preference = read_preference(header)
    assert preference.wait_s is None or 0 <= preference.wait_s <= MAX_WAIT_S


def challenge_token() -> str:
    public = CHALLENGES.public({"authorization": [{"id": "a", "check_url": "https://x.example"}]}, "lab")
    return str(public["authorization"][0]["check_url"]).rpartition("/")[2]


@SOME
@given(ANY_TEXT | damaged_bytes([challenge_token().encode()]).map(lambda text: text.decode("utf-8", "replace")))
@example("é")
def test_only_a_token_of_ours_is_a_challenge(token: str) -> None:
    assert CHALLENGES.open(token) in (None, ServerChallenge("lab", "https://x.example"))


@SOME
@given(
    ANY_TEXT
    | damaged_bytes([CALLBACKS.mint(CallKey("key"), "run").encode()]).map(lambda text: text.decode("utf-8", "replace"))
)
@example("a.b.é")
def test_only_a_token_of_ours_is_a_callback(token: str) -> None:
    assert CALLBACKS.open(token) in (None, ("key", "run"))


NOTE = pack_metadata(CallMetadata(dialect="otc", wire_version="otc://1.0", call_id="mine", tool="Lab.Echo@1.0.0"))
OUTCOME = pack(ToolResult(value={"n": 1}))
SEALER = Sealer(KEYS, "state")
ROW = [
    b"fingerprint",
    b"principal",
    b"lab",
    b"6",
    SEALER.seal(NOTE, b"key/note"),
    b"replica",
    b"1",
    b"question",
    b"1700000000000",
    SEALER.seal(OUTCOME, b"key/outcome"),
]
FIELDS = (
    st.none()
    | st.binary()
    | st.integers().map(lambda number: str(number).encode())
    | st.integers(1, 6000).map(lambda digits: b"9" * digits)
    | damaged_bytes([field for field in ROW if len(field) > 10])
)


@SOME
@given(st.dictionaries(st.integers(0, len(ROW) - 1), FIELDS, max_size=4))
@example({8: b"9" * 400})
@example({8: b"9" * 5000})
@example({3: b"9" * 5000})
def test_any_row_is_a_call_or_an_unknown_one(spoiled: dict[int, bytes | None]) -> None:
    record = RECORDS.read(b"key", [spoiled.get(place, field) for place, field in enumerate(ROW)])
    assert record.state in CallState
    if record.note:
        view_of_record(record)


def test_a_good_row_is_the_call_it_was() -> None:
    record = RECORDS.read(b"key", list(ROW))
    assert (record.state, record.created_s, record.idempotent) == (CallState.DONE, 1.7e9, True)
    assert metadata_of(record).call_id == "mine"
