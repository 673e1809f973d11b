from __future__ import annotations

from gateway.demo import consent
from gateway.demo.consent import Consent


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_challenge_expires_and_can_no_longer_be_completed() -> None:
    clock = Clock()
    accounts = Consent("http://mail.example", clock)
    challenge = accounts.challenge("ana")
    clock.now += consent.CHALLENGE_LIFETIME_S
    assert accounts.status(challenge["id"]) == "failed"
    accounts.settle(challenge["id"], connect=True)
    assert not accounts.is_connected("ana")
    assert accounts.challenge("ana")["id"] != challenge["id"]


def test_a_completed_challenge_stays_completed() -> None:
    clock = Clock()
    accounts = Consent("http://mail.example", clock)
    challenge = accounts.challenge("ana")
    accounts.settle(challenge["id"], connect=True)
    accounts.settle(challenge["id"], connect=False)
    clock.now += consent.CHALLENGE_LIFETIME_S
    assert accounts.status(challenge["id"]) == "completed"
    assert accounts.is_connected("ana")


def test_the_oldest_challenges_are_forgotten_first() -> None:
    accounts = Consent("http://mail.example")
    challenges = [accounts.challenge("ana", fresh=True)["id"] for _ in range(consent.MAX_CHALLENGES + 1)]
    assert accounts.status(challenges[0]) == "failed"
    assert accounts.status(challenges[1]) == "pending"
