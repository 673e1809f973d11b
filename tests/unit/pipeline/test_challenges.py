"""Challenge tokens: sealed, unguessable, of limited life, and silent about what is inside."""

from __future__ import annotations

import base64

import pytest

from gateway.core.model import CallKey
from gateway.pipeline.challenges import CLOCKS_DIFFER_S, CallChallenge, ChallengeLinks, ServerChallenge

KEY = "a key of at least thirty-two characters"
OLD_KEY = "an older key, of thirty-two characters too"
PUBLIC = "https://tools.example"
CHECK_URL = "https://crm.internal/check/77?a=ø"
NOW = 2_000_000_000.0
LIFETIME_S = 60.0
CALL = CallKey("k" * 43)  # the key of a call of ours


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def challenges(*keys: str, clock: Clock | None = None) -> ChallengeLinks:
    return ChallengeLinks(keys, lambda: PUBLIC, lifetime_s=LIFETIME_S, clock=clock or Clock())


def token_of(sealer: ChallengeLinks, check_url: str = CHECK_URL) -> str:
    challenge = {"id": "ch", "url": "https://x.example", "check_url": check_url}
    public = sealer.public({"authorization": [challenge]}, "crm")["authorization"][0]["check_url"]
    assert public.startswith(f"{PUBLIC}/challenges/")
    return str(public).removeprefix(f"{PUBLIC}/challenges/")


def test_a_token_is_one_path_segment_that_shows_nothing() -> None:
    token = token_of(challenges(KEY))
    assert token.replace("-", "").replace("_", "").isalnum()
    sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"crm" not in sealed
    assert b"internal" not in sealed


@pytest.mark.parametrize(("length", "kept"), [(2048, True), (2049, False)])
def test_a_url_that_would_fill_a_request_line_is_left_out(length: int, kept: bool) -> None:
    url = "https://crm.internal/".ljust(length, "x")
    sealer = challenges(KEY)
    public = sealer.public({"authorization": [{"id": "a", "url": "https://x", "check_url": url}]}, "crm")
    challenge = public["authorization"][0]
    assert ("check_url" in challenge) is kept
    assert (challenge["id"], challenge["url"]) == ("a", "https://x")
    if kept:
        assert sealer.open(challenge["check_url"].rpartition("/")[2]) == ServerChallenge("crm", url)


def test_a_token_forged_at_any_byte_is_none() -> None:
    sealer = challenges(KEY)
    token = token_of(sealer)
    sealed = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for at in range(len(sealed)):
        sealed[at] ^= 1
        assert sealer.open(base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()) is None
        sealed[at] ^= 1
    assert sealer.open(base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()) is not None


def test_a_token_cut_at_any_length_is_none() -> None:
    sealer = challenges(KEY)
    token = token_of(sealer)
    assert [sealer.open(token[:length]) for length in range(len(token))] == [None] * len(token)
    assert sealer.open(token + "AAAA") is None


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_token_lives_as_long_as_a_call_where_clocks_differ_by_an_hour(ahead_s: float) -> None:
    sealing, opening = Clock(), Clock()
    token = token_of(challenges(KEY, clock=sealing))
    opening.now = NOW + ahead_s + LIFETIME_S
    assert challenges(KEY, clock=opening).open(token) == ServerChallenge("crm", CHECK_URL)


def test_a_token_for_a_call_of_ours_has_no_end_because_its_record_has_one() -> None:
    clock = Clock()
    sealer = challenges(KEY, clock=clock)
    public = sealer.public_for_call({"id": "ch", "url": "https://x.example"}, "crm", CALL)
    token = public["check_url"].removeprefix(f"{PUBLIC}/challenges/")
    clock.now = NOW + 1000 * (LIFETIME_S + CLOCKS_DIFFER_S)
    assert sealer.open(token) == CallChallenge("crm", CALL)
    assert public == {"id": "ch", "url": "https://x.example", "check_url": f"{PUBLIC}/challenges/{token}"}


def test_no_tool_server_can_name_a_call_of_ours_in_place_of_its_url() -> None:
    challenge = {"id": "a", "url": "https://x.example"}
    public = challenges(KEY).public({"authorization": [challenge | {"check_url": CALL}]}, "crm")
    assert public["authorization"] == [challenge]


def test_the_first_key_seals_and_all_open() -> None:
    before, between, after = challenges(OLD_KEY), challenges(KEY, OLD_KEY), challenges(KEY)
    assert between.open(token_of(before)) is not None
    assert after.open(token_of(between)) is not None
    assert before.open(token_of(between)) is None
    assert after.open(token_of(before)) is None


def test_without_keys_a_process_opens_its_own_tokens_alone() -> None:
    one, another = challenges(), challenges()
    token = token_of(one)
    assert one.open(token) is not None
    assert another.open(token) is None
