"""Authorization challenges: the tool server's own, with a way for callers to watch them through the gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.pipeline.challenges import CLOCKS_DIFFER_S, ChallengeLinks
from gateway.ratelimit.limits import LOOKS_AT_ONE
from tests import plainhttp
from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import PUBLIC_URL, config
from tests.flow.keeping import finished
from tests.flow.toolserver import ToolServer, tool
from tests.streams import Request, http_reply

pytestmark = pytest.mark.anyio

KEY = "a key of at least thirty-two characters"
PENDING_S = 24 * 3600.0  # the default of `state.pending_ttl`
NEEDS_MAIL = {"authorization": [{"id": "mail"}]}
PREFIX = f"{PUBLIC_URL}/challenges/"


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A user who opens links."""
    async with plainhttp.async_client(timeout=10.0) as client:
        yield client


async def status_of(caller: Caller, check_url: str) -> str:
    answer = await caller.send("oxp", "challenge", "GET", check_url)
    assert answer.status == 200
    return str(answer.document["status"])


@pytest.mark.parametrize(("button", "outcome"), [("", "completed"), ("/decline", "failed")])
@every_dialect
async def test_the_challenge_status_follows_the_user(
    demo: Caller, browser: httpx.AsyncClient, dialect: str, button: str, outcome: str
) -> None:
    """Spec: OXP 1.0, Tool Authorization Challenges: 400 with `id` and `url`, then `check_url`, then the call again."""
    search = {"context": {"user_id": f"user-{dialect}-{outcome}"}}
    answer = await demo.call(dialect, "Mail.Search", {"query": "invoice"}, **search)
    assert answer.status == 400
    [challenge] = answer.missing["authorization"]
    assert challenge["url"].startswith("http://127.0.0.1:")
    assert challenge["check_url"].startswith(PREFIX)
    await browser.post(challenge["url"] + button)
    assert await status_of(demo, challenge["check_url"]) == outcome
    answer = await demo.call(dialect, "Mail.Search", {"query": "invoice"}, **search)
    if outcome == "completed":
        assert [message["id"] for message in answer.value] == ["m-1", "m-3"]
    else:
        assert answer.missing["authorization"][0]["url"] != challenge["url"]


async def test_a_challenge_is_pending_until_the_user_answers_it(demo: Caller, browser: httpx.AsyncClient) -> None:
    answer = await demo.call("oxp", "Mail.Search", {"query": "invoice"}, context={"user_id": "user-pending"})
    [challenge] = answer.missing["authorization"]
    assert await status_of(demo, challenge["check_url"]) == "pending"
    await browser.post(challenge["url"])
    async with asyncio.timeout(5):
        while (status := await status_of(demo, challenge["check_url"])) == "pending":  # noqa: ASYNC110 - shared for a second
            await asyncio.sleep(0.1)
    assert status == "completed"


async def test_looks_at_a_challenge_share_an_answer_and_have_a_limit(start: Start, server: ToolServer) -> None:
    """Ours: a link needs no credential, and must not be a way to load a tool server."""
    challenging(server)
    caller = (await start(config({"scripted": server.url}, state={"keys": [KEY]}))).caller
    url, other = sealed(server), sealed(server, path="/check/2")
    asked, begun = len(server.received), time.monotonic()
    answers = await asyncio.gather(
        *(caller.send("oxp", "challenge", "GET", url) for _ in range(LOOKS_AT_ONE.burst * 5))
    )
    took_s = time.monotonic() - begun
    assert {answer.status for answer in answers} == {200, 429}
    assert {answer.document["status"] for answer in answers if answer.status == 200} == {"completed"}
    refused = next(answer for answer in answers if answer.status == 429)
    assert int(refused.headers["retry-after"]) == 1
    assert 1 <= len(server.received) - asked <= 1 + took_s
    assert await status_of(caller, other) == "completed"  # each has a limit of its own


@every_dialect
async def test_a_good_token_needs_no_challenge_and_a_bad_one_gets_one(demo: Caller, dialect: str) -> None:
    """Spec: OXP 1.0, Tool Authorization Challenges."""
    context: dict[str, Any] = {"user_id": "bob", "authorization": [{"id": "demo-mail", "token": "demo-token"}]}
    answer = await demo.call(dialect, "Mail.Search", {"query": "lunch"}, context=context)
    assert [message["id"] for message in answer.value] == ["m-2"]
    context["authorization"] = [{"id": "demo-mail", "token": "canary-1618"}]
    answer = await demo.call(dialect, "Mail.Search", {"query": "lunch"}, context=context)
    assert (answer.status, len(answer.missing["authorization"])) == (400, 1)
    assert b"canary" not in answer.body


def challenging(server: ToolServer, *challenges: Any, in_band: bool = False) -> None:
    """Lets the tool server answer every call with challenges."""
    server.tools = [tool("Mail.Read", requirements=NEEDS_MAIL)]
    missing = {"message": "Connect first", "missing_requirements": {"authorization": list(challenges)}}

    async def handle(received: Request) -> bytes:
        if received.target.startswith("/check/"):
            return http_reply(200, {"status": "completed"})
        return server.failure(received, **missing) if in_band else http_reply(400, missing)

    server.handler = handle


@pytest.mark.parametrize("in_band", [False, True], ids=["in a 400", "in the error of a 200"])
@every_dialect
async def test_the_challenge_url_is_passed_on(start: Start, server: ToolServer, dialect: str, in_band: bool) -> None:
    """Spec: OXP 1.0, `missing_requirements` of 400; one of its pages puts it into a 200, read as the same."""
    url = "https://login.example/a?b=%7E&c=d%20e#f"
    challenging(server, {"id": "ch-1", "url": url, "check_url": f"{server.url}/check/1"}, in_band=in_band)
    caller = (await start(config({"scripted": server.url}))).caller
    answer = await caller.call(dialect, "Mail.Read")
    assert (answer.status, answer.message) == (400, "Connect first")
    [challenge] = answer.missing["authorization"]
    assert (challenge["id"], challenge["url"]) == ("ch-1", url)
    assert server.url not in challenge["check_url"]
    assert await status_of(caller, challenge["check_url"]) == "completed"


@pytest.mark.parametrize("members", [{}, {"call_id": "k"}], ids=["without an id", "with one"])
@every_dialect
async def test_an_async_call_has_challenge(
    start: Start, server: ToolServer, dialect: str, members: dict[str, Any]
) -> None:
    challenging(server, {"id": "ch-1", "url": "https://login.example/", "check_url": f"{server.url}/check/1"})
    caller = (await start(config({"scripted": server.url}))).caller
    accepted = await caller.call(dialect, "Mail.Read", headers={"prefer": "respond-async"}, **members)
    assert accepted.status == 202
    answer = await finished(caller, dialect, accepted.headers["location"])
    assert (answer.status, answer.error["can_retry"]) == (200, True)
    [challenge] = answer.error["missing_requirements"]["authorization"]
    assert challenge["url"] == "https://login.example/"
    assert server.url not in challenge["check_url"]
    assert await status_of(caller, challenge["check_url"]) == "completed"


def sealed(
    server: ToolServer, *, key: str = KEY, age_s: float = 0, backend: str = "scripted", path: str = "/check/1"
) -> str:
    """A token as a gateway with that key made it some seconds ago."""
    maker = ChallengeLinks([key], lambda: PUBLIC_URL, lifetime_s=PENDING_S, clock=lambda: time.time() - age_s)
    challenge = {"id": "1", "url": "https://x.example", "check_url": server.url + path}
    return str(maker.public({"authorization": [challenge]}, backend)["authorization"][0]["check_url"])


async def test_a_sealed_token_works_and_a_forged_or_expired_one_fails(start: Start, server: ToolServer) -> None:
    """Ours: unguessable, of limited life, and only the status is shown."""
    challenging(server)
    caller = (await start(config({"scripted": server.url}, state={"keys": [KEY]}))).caller
    good = sealed(server)
    assert await status_of(caller, good) == "completed"
    assert await status_of(caller, sealed(server, age_s=PENDING_S)) == "completed"
    bad = [
        sealed(server, age_s=PENDING_S + CLOCKS_DIFFER_S + 1),
        sealed(server, key="another key of more than thirty-two characters"),
        sealed(server, backend="elsewhere"),
        PREFIX + ("B" if good[len(PREFIX)] == "A" else "A") + good[len(PREFIX) + 1 :],
        good + "AAAA",
        PREFIX + "x",
        PREFIX + "A" * 1000,
        PREFIX + "%00%ff%F0%9F%A7%AD",
        PREFIX + "=",
        PREFIX + "a/b",
        PREFIX + "a%2Fb",
        PREFIX,
    ]
    asked = len(server.received)
    assert [await status_of(caller, url) for url in bad] == ["failed"] * len(bad)
    assert len(server.received) == asked
