"""The `Prefer` header of callers (RFC 7240)."""

from __future__ import annotations

import pytest

from gateway.calls.preference import MAX_WAIT_S, NO_PREFERENCE, Preference, read_preference

READ = [
    (b"respond-async", True, None),
    (b"wait=10", False, 10),
    (b"respond-async, wait=10", True, 10),
    (b"wait=0", False, 0),
    (b"Wait=10 , RESPOND-ASYNC", True, 10),
    (b'wait="10"', False, 10),
    (b"wait = 10", False, 10),
    (b"wait=10; x=1, respond-async; y", True, 10),
    (b"return=minimal, respond-async", True, None),
    (b"respond-async=yes", True, None),
    (b"wait=0000000000000000000000007", False, 7),
    (b"wait=" + b"9" * 5000, False, MAX_WAIT_S),
    (b"wait=1, wait=2", False, 1),
    (b"wait=soon, wait=2", False, None),
    (b'note="respond-async, wait=5", wait=6', False, 6),
    (b'note="a \\", wait=5", respond-async', True, None),
]
NONSENSE = [
    b"",
    b" ",
    b"wait",
    b"wait=",
    b"wait=-1",
    b"wait=1.5",
    b"wait=\xd9\xa1",
    b"waits=1",
    b"=",
    b",;=,",
    b'"',
    b"\xff",
]


@pytest.mark.parametrize(("header", "respond_async", "wait_s"), READ)
def test_what_is_known_is_read(header: bytes, respond_async: bool, wait_s: float | None) -> None:
    assert read_preference(header) == Preference(respond_async=respond_async, wait_s=wait_s)


@pytest.mark.parametrize("header", NONSENSE)
def test_what_makes_no_sense_is_ignored(header: bytes) -> None:
    assert read_preference(header) == NO_PREFERENCE


@pytest.mark.parametrize(
    ("preference", "accepted", "applied"),
    [
        (NO_PREFERENCE, False, None),
        (Preference(respond_async=True), True, "respond-async"),
        (Preference(respond_async=True), False, None),
        (Preference(wait_s=2.0), False, "wait=2"),
        (Preference(wait_s=30.0), False, "wait=30"),
        (Preference(wait_s=31.0), False, None),
        (Preference(respond_async=True, wait_s=2.0), True, "respond-async, wait=2"),
        (Preference(respond_async=True, wait_s=2.0), False, "wait=2"),
    ],
)
def test_only_what_was_followed_is_said_to_be_applied(
    preference: Preference, accepted: bool, applied: str | None
) -> None:
    assert preference.applied(accepted=accepted, at_most_s=30.0) == applied
