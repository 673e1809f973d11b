"""Two replicas on one Redis: any may take the callback, any may be asked, and any may be joined."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import DONE_S, Replica, Site, ran, site, statuses
from tests.support.calling import call, value
from tests.support.processes import until

pytestmark = pytest.mark.anyio

DEPLOY = {"target": "staging"}


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("redis")) as place:
        yield place


async def test_a_callback_elsewhere_answers_the_caller_here_and_its_repetition_there(place: Site) -> None:
    posted, runs = await statuses(place.builds), await ran(place.builds)

    async def built(replica: Replica) -> Any:
        """Joins the call again as callers do, where a busy machine took longer than the gateway waits."""
        while True:
            answer = await call(replica.http, "Builds.build", {"seconds": 0.3}, call_id="one")
            if answer.headers.get("toolgate-code") != "still_running":
                return value(answer)["status"]

    assert await built(place.a) == "built"

    async def posted_once() -> bool:
        return await statuses(place.builds) == [*posted, 200]

    await until(posted_once, "the other one has answered: it is the only one that was named")
    assert await built(place.b) == "built"
    assert await ran(place.builds) == [*runs, 1]


async def test_the_same_question_joins_the_open_call_on_whatever_replica_and_gets_its_result_once(place: Site) -> None:
    """Calls without a name that wait for their user."""
    runs = await ran(place.builds)
    asked = await asked_for_consent(place.a, "ada")
    for replica in (place.b, place.a):
        assert same(await asked_for_consent(replica, "ada"), asked)
    assert (await asked_for_consent(place.b, "bob"))["call"] != asked["call"]
    async with plainhttp.async_client() as browser:
        (await browser.post(asked["url"])).raise_for_status()
        await until(lambda: completed(browser, asked["status"]), "the consent is known", DONE_S)
    answer = await call(place.b.http, "Builds.deploy", DEPLOY, context={"user_id": "ada"})
    assert value(answer)["status"] == "deployed"
    assert answer.headers["toolgate-call-id"] == asked["call"]
    assert await ran(place.builds) == [*runs, 1, 1]  # bob's too

    again = await call(place.a.http, "Builds.deploy", DEPLOY, context={"user_id": "ada"})
    assert value(again)["status"] == "deployed"
    assert again.headers["toolgate-call-id"] != asked["call"]
    assert await ran(place.builds) == [*runs, 1, 1, 1]


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
