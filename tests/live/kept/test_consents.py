"""Calls without a name that wait for their user, on two replicas: whoever asks the same again joins them on either."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.live.faults.calling import call, value
from tests.live.faults.processes import until
from tests.live.kept.site import DONE_S, Replica, ran, site

DEPLOY = {"target": "staging"}


async def asked_for_consent(at: Replica, user: str) -> dict[str, str]:
    """The challenge with which a replica answers the call."""
    response = await call(at.http, "Builds.deploy", DEPLOY, context={"user_id": user})
    assert response.status_code == 400, response.text
    [challenge] = response.json()["missing_requirements"]["authorization"]
    call_id = response.headers["toolgate-call-id"]
    return {"url": challenge["url"], "status": challenge["check_url"], "call": call_id}


def same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two challenges are of one call; what seals a status is made anew each time."""
    return (one["url"], one["call"]) == (other["url"], other["call"])


async def completed(browser: httpx.AsyncClient, status: str) -> bool:
    """Whether a challenge has been met."""
    return bool((await browser.get(status)).json()["status"] == "completed")


@pytest.mark.anyio
async def test_the_same_question_joins_the_open_call_on_whatever_replica_and_gets_its_result_once(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as place:
        asked = await asked_for_consent(place.a, "ada")
        for replica in (place.b, place.a):
            assert same(await asked_for_consent(replica, "ada"), asked)
        assert (await asked_for_consent(place.b, "bob"))["call"] != asked["call"]
        async with httpx.AsyncClient(trust_env=False) as browser:
            (await browser.post(asked["url"])).raise_for_status()
            await until(lambda: completed(browser, asked["status"]), "the consent is known", DONE_S)
        answer = await call(place.b.http, "Builds.deploy", DEPLOY, context={"user_id": "ada"})
        assert value(answer)["status"] == "deployed"
        assert answer.headers["toolgate-call-id"] == asked["call"]
        assert await ran(place.builds) == [1, 1]  # bob's too

        again = await call(place.a.http, "Builds.deploy", DEPLOY, context={"user_id": "ada"})
        assert value(again)["status"] == "deployed"
        assert again.headers["toolgate-call-id"] != asked["call"]
        assert await ran(place.builds) == [1, 1, 1]
