"""Calls that wait for their user, and what is sealed for some time."""

from __future__ import annotations

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, JsonObject
from gateway.core.sealing import Sealer, TimedSealer, Unsealable
from gateway.core.surfaces import Awaited
from gateway.pipeline.challenges import CallChallenge, Challenge, ChallengeLinks, ChallengeStatusCache, Consents
from tests.unit.upstream.admission.clock import Clock

pytestmark = pytest.mark.anyio

LIFETIME_S = 60.0


class Provider:
    """Challenges whose status a test sets, by the `check_url` of the tool server or the key of the call."""

    def __init__(self) -> None:
        self.challenges = ChallengeLinks([], lambda: "https://tools.example", lifetime_s=LIFETIME_S, clock=lambda: 0.0)
        self.statuses: dict[str, str] = {}

    def consents(self, hold_s: float = 0.0) -> Consents:
        return Consents(self.challenges, ChallengeStatusCache(self._ask), hold_s=hold_s)

    def of_server(self, path: str) -> JsonObject:
        missing = {"authorization": [{"id": path, "url": "https://login.example", "check_url": f"https://s{path}"}]}
        challenge: JsonObject = self.challenges.public(missing, "mail")["authorization"][0]
        return challenge

    def of_call(self, key: str) -> JsonObject:
        return self.challenges.public_for_call({"id": key, "url": "https://login.example"}, "builds", CallKey(key))

    async def _ask(self, challenge: Challenge) -> str:
        return self.statuses[challenge.key if isinstance(challenge, CallChallenge) else challenge.check_url]


@pytest.fixture
def provider() -> Provider:
    return Provider()


def awaited(*challenges: JsonObject) -> Awaited:
    return Awaited("Connect first", challenges)


async def refusal(consents: Consents, *challenges: JsonObject) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await consents.wait(awaited(*challenges))
    assert caught.value.code is ErrorCode.MISSING_REQUIREMENTS
    return caught.value


async def test_what_is_still_pending_in_the_end_is_asked_for_again(provider: Provider) -> None:
    one, other = provider.of_server("/1"), provider.of_server("/2")
    provider.statuses = {"https://s/1": "completed", "https://s/2": "pending"}
    error = await refusal(provider.consents(), one, other)
    assert (error.message, error.missing) == ("Connect first", {"authorization": (one, other)})


async def test_one_failed_challenge_ends_the_call(provider: Provider) -> None:
    provider.statuses = {"https://s/1": "pending", "https://s/2": "failed"}
    error = await refusal(provider.consents(20.0), provider.of_server("/1"), provider.of_server("/2"))
    assert error.missing is None


async def test_a_link_that_is_none_of_ours_has_failed(provider: Provider) -> None:
    forged = {"id": "x", "url": "https://login.example", "check_url": "https://tools.example/challenges/x"}
    assert (await refusal(provider.consents(20.0), forged)).missing is None


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_call_that_ended_is_asked_for_its_end(provider: Provider, status: str) -> None:
    provider.statuses = {"call": status}
    await provider.consents().wait(awaited(provider.of_call("call")))


async def test_nothing_is_waited_for_that_cannot_be_asked(provider: Provider) -> None:
    await provider.consents().wait(awaited({"id": "mail", "url": "https://login.example"}))


def test_a_text_opens_for_its_lifetime_and_its_own_data_only() -> None:
    clock, keys = Clock(), ["a key of at least thirty-two characters"]
    sealer = TimedSealer(Sealer(keys, "tests"), LIFETIME_S, clock)
    other = TimedSealer(Sealer(keys, "tests"), LIFETIME_S, clock)
    sealed = sealer.seal(b"text", b"data")
    clock.now += LIFETIME_S - 1
    assert other.open(sealed, b"data") == b"text"
    with pytest.raises(Unsealable):
        other.open(sealed, b"others")
    clock.now += 1
    with pytest.raises(Unsealable):
        other.open(sealed, b"data")
