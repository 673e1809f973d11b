"""Texts are sealed, and digests made, with the operator's keys."""

from __future__ import annotations

import itertools

import pytest

from gateway.core.sealing import KEY_ID_BYTES, NONCE_BYTES, NONCES_PER_READ, Digester, Sealer, Unsealable
from tests.support.stored_calls import KEYS

OTHER = "another key, of enough characters as well"


CANARY = b"canary-in-a-coal-mine"


STEPS = [[*KEYS], [*KEYS, OTHER], [OTHER, *KEYS], [OTHER]]  # by which keys are changed, as docs/scaling.md says


def test_a_sealed_text_opens_only_with_its_associated_data() -> None:
    sealer = Sealer(KEYS, "state")
    sealed = sealer.seal(CANARY, b"here")
    assert CANARY not in sealed
    assert sealed != sealer.seal(CANARY, b"here")
    assert sealer.open(sealed, b"here") == CANARY
    with pytest.raises(Unsealable):
        sealer.open(sealed, b"there")
    with pytest.raises(Unsealable):
        Sealer(KEYS, "something else").open(sealed, b"here")


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise(STEPS)))
def test_replicas_one_step_apart_in_a_change_of_keys_understand_each_other(before: list[str], after: list[str]) -> None:
    for one, other in ((before, after), (after, before)):
        assert Sealer(one, "state").open(Sealer(other, "state").seal(CANARY, b""), b"") == CANARY
        assert Digester(other, "call").digest("id") in Digester(one, "call").digests("id")


def test_damaged_bytes_never_open() -> None:
    sealer = Sealer(KEYS, "state")
    sealed = sealer.seal(CANARY, b"")
    damaged = [sealed[:length] for length in range(len(sealed))]
    damaged += [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for one in damaged:
        with pytest.raises(Unsealable):
            sealer.open(one, b"")


def test_every_sealing_has_its_own_nonce() -> None:
    """Chance is fetched for many at once, and never used again."""
    sealer = Sealer(KEYS, "state")
    nonces = {sealer.seal(CANARY, b"")[KEY_ID_BYTES:][:NONCE_BYTES] for _ in range(3 * NONCES_PER_READ)}
    assert len(nonces) == 3 * NONCES_PER_READ


def test_without_keys_each_process_has_its_own() -> None:
    with pytest.raises(Unsealable):
        Sealer([], "state").open(Sealer([], "state").seal(CANARY, b""), b"")
    assert Digester([], "state").digest("a") != Digester([], "state").digest("a")


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 32"):
        Sealer(["k" * 31], "state")


PARTS: list[tuple[str | bytes, ...]] = [
    (),
    ("",),
    ("", ""),
    ("ab",),
    ("a", "b"),
    ("b", "a"),
    ("ab", ""),
    ("\x00" * 8, "ab"),
    (b"\xff", "a"),
    ("\ud800",),
]


def test_different_parts_have_different_digests() -> None:
    digester = Digester(KEYS, "state")
    digests = {digester.digest(*parts) for parts in PARTS}
    assert len(digests) == len(PARTS)
    assert {len(digest) for digest in digests} == {43}
    assert digester.digest("a", "b") == Digester(KEYS, "state").digest("a", b"b")
    assert digester.digest("a") != Digester(KEYS, "tokens").digest("a")


def test_a_digest_is_known_under_every_key() -> None:
    both = Digester([OTHER, *KEYS], "state").digests("a")
    assert both == (Digester([OTHER], "state").digest("a"), Digester(KEYS, "state").digest("a"))
