"""How often callers may ask, as they see it. The headers are those of draft-ietf-httpapi-ratelimit-headers-10.

Which requests count, and in which order, is ours. No limit of these tests comes back before they are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.caller import Answer, Caller
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config
from tests.flow.toolserver import ToolServer
from tests.flow.watching import samples
from tests.support.tokens import OTHER_SECRET, SECRET, token

pytestmark = pytest.mark.anyio

DAY_S = 86400
AUTH = {"jwt": [{"secret": SECRET}]}
HERE, THERE = "203.0.113.1", "203.0.113.2"


def limit(name: str, key: str, burst: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "key": key, "rate": "1/d", "burst": burst, **more}


async def limited(start: Start, server: ToolServer, *limits: Any, **sections: Any) -> Running:
    return await start(config({"scripted": server.url}, rate_limits=list(limits), **sections))


def limit_headers(answer: Answer) -> tuple[str | None, str | None]:
    return answer.headers.get("ratelimit-policy"), answer.headers.get("ratelimit")


async def test_answers_show_the_limit_and_429_when_to_retry(start: Start, server: ToolServer) -> None:
    caller = (await limited(start, server, limit("thrice", "caller", 3))).caller
    policy = f'"thrice";q=3;w={3 * DAY_S}'
    assert limit_headers(await caller.call("oxp", "Echo.Say")) == (policy, f'"thrice";r=2;t={DAY_S}')
    assert limit_headers(await caller.list("oxp")) == (policy, f'"thrice";r=1;t={DAY_S}')
    assert limit_headers(await caller.call("oxp", "Echo.Say", call_id="kept")) == (policy, f'"thrice";r=0;t={DAY_S}')
    for refused in (await caller.call("oxp", "Echo.Say"), await caller.list("oxp")):
        assert (refused.status, refused.message) == (429, "Too many requests; try again later.")
        assert refused.headers["retry-after"] == str(DAY_S)
        assert limit_headers(refused) == (policy, f'"thrice";r=0;t={DAY_S}')
    assert server.executions == 2


async def test_looks_at_challenges_count_as_polls_of_their_address(start: Start, server: ToolServer) -> None:
    looks = limit("looks", "ip", 2, operations=["poll"])
    caller = (await limited(start, server, looks)).caller
    answers = [await caller.send("oxp", "challenge", "GET", "/challenges/forged") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    shown = [answer.headers["ratelimit"].partition(", ")[0] for answer in answers]  # then how the built-in limit stands
    assert shown == [f'"looks";r={left};t={DAY_S}' for left in (1, 0, 0)]
    assert answers[2].headers["retry-after"] == str(DAY_S)
    assert (await caller.list("oxp")).status == 200


async def test_strict_errors_keep_the_limit_headers(start: Start, server: ToolServer) -> None:
    caller = (await limited(start, server, limit("once", "caller", 1), errors={"strict": True})).caller
    assert (await caller.call("oxp", "Echo.Say")).status == 200
    for refused in (await caller.call("oxp", "Echo.Say"), await caller.list("oxp")):
        assert (refused.status, refused.message) == (400, "Too many requests; try again later.")
        assert refused.headers["retry-after"] == str(DAY_S)
        assert limit_headers(refused) == (f'"once";q=1;w={DAY_S}', f'"once";r=0;t={DAY_S}')


async def test_a_list_that_the_caller_has_already_counts_and_says_so(start: Start, server: ToolServer) -> None:
    caller = (await limited(start, server, limit("twice", "caller", 2))).caller
    tag = (await caller.list("oxp")).headers["etag"]
    answer = await caller.list("oxp", headers={"if-none-match": tag})
    assert (answer.status, answer.headers["ratelimit"]) == (304, f'"twice";r=0;t={DAY_S}')


async def test_an_address_is_counted_before_authentication(start: Start, server: ToolServer) -> None:
    caller = (await limited(start, server, limit("per-address", "ip", 2), auth=AUTH)).caller
    unknown = await caller.call("otc", "Echo.Say")
    assert (unknown.status, unknown.headers["ratelimit"]) == (401, f'"per-address";r=1;t={DAY_S}')
    known = caller.with_token(token())
    assert (await known.call("otc", "Echo.Say")).status == 200
    assert [(await it.call("otc", "Echo.Say")).status for it in (caller, known)] == [429, 429]


async def test_both_phases_show_their_limits(start: Start, server: ToolServer) -> None:
    """Ours: an address pays for what it asks, even if it is refused later."""
    limits = limit("per-address", "ip", 5), limit("per-caller", "caller", 1)
    caller = (await limited(start, server, *limits, auth=AUTH)).caller.with_token(token())
    first, second = await caller.call("oxp", "Echo.Say"), await caller.call("oxp", "Echo.Say")
    assert first.headers.get_list("ratelimit", split_commas=True) == [
        f'"per-address";r=4;t={DAY_S}',
        f'"per-caller";r=0;t={DAY_S}',
    ]
    assert (second.status, second.headers.get_list("ratelimit", split_commas=True)) == (
        429,
        [f'"per-caller";r=0;t={DAY_S}', f'"per-address";r=3;t={DAY_S}'],
    )


GARBLED = (b"{", b"[]", b'{"request": 1}', b'{"request": {"tool_id": "No.Tool"}}', b'{"request": {"tool_id": 7}}')


async def test_a_garbled_call_counts_for_its_caller_only(start: Start, server: ToolServer) -> None:
    limits = limit("per-caller", "caller", len(GARBLED) + 2), limit("per-tool", "caller+tool", 1)
    caller = (await limited(start, server, *limits)).caller
    for content in GARBLED:
        answer = await caller.send("oxp", "call", "POST", "/oxp/tools/call", content=content)
        assert answer.status == 400
    assert answer.headers["ratelimit"] == f'"per-caller";r=2;t={DAY_S}'
    answer = await caller.call("oxp", "Echo.Say")
    assert answer.headers["ratelimit"] == f'"per-caller";r=1;t={DAY_S}, "per-tool";r=0;t={DAY_S}'


# What is refused for its head alone: its method, what it says of itself, and with what status.
HEADS: dict[str, tuple[str, dict[str, str], int]] = {
    "another type": ("POST", {"content-type": "text/plain"}, 415),
    "compressed": ("POST", {"content-encoding": "gzip"}, 415),
    "announced too large": ("POST", {"content-length": "999999999"}, 413),
    "another method": ("PUT", {}, 405),
}
every_head = pytest.mark.parametrize(("method", "headers", "status"), HEADS.values(), ids=HEADS)


@every_head
@pytest.mark.parametrize("key", ["caller", "ip", "caller+ip"])
async def test_refused_heads_count(
    start: Start, server: ToolServer, method: str, headers: dict[str, str], status: int, key: str
) -> None:
    caller = (await limited(start, server, limit("twice", key, 2), auth=AUTH)).caller.with_token(token())
    answers = [await caller.send("otc", "call", method, "/otc/call", headers=headers, content=b"{}") for _ in range(3)]
    assert [answer.status for answer in answers] == [status, status, 429]
    assert [answer.headers["ratelimit"] for answer in answers] == [f'"twice";r={left};t={DAY_S}' for left in (1, 0, 0)]
    assert (await caller.call("oxp", "Echo.Say")).status == 429
    assert not server.calls


@every_head
async def test_refused_heads_of_unknown_callers_do_not_count(
    start: Start, server: ToolServer, method: str, headers: dict[str, str], status: int
) -> None:
    guesses = limit("guesses", "ip", 2, operations=["failed_verification"])
    caller = (await limited(start, server, guesses, limit("once", "caller", 1), auth=AUTH)).caller
    assert (await caller.send("otc", "call", method, "/otc/call", headers=headers, content=b"{}")).status == status
    guessing = caller.with_token(token(secret=OTHER_SECRET))
    answers = [await guessing.send("otc", "call", method, "/otc/call", headers=headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [status, status, 429]


async def test_a_list_with_too_large_a_body_counts_as_a_list(start: Start, server: ToolServer) -> None:
    caller = (await limited(start, server, limit("lists", "caller", 1, operations=["list"]))).caller
    statuses = [(await caller.list("oxp", headers={"content-length": "65537"})).status for _ in range(2)]
    assert statuses == [413, 429]
    assert (await caller.call("oxp", "Echo.Say")).status == 200


async def arriving(*parts: bytes) -> AsyncIterator[bytes]:
    """A body without Content-Length."""
    for part in parts:
        yield part


async def test_a_streamed_body_too_large_counts(start: Start, server: ToolServer) -> None:
    text = config({"scripted": server.url}, rate_limits=[limit("once", "caller", 1)], server={"max_body": "1KiB"})
    caller = (await start(text)).caller
    for status in (413, 429):
        body = arriving(b" " * 1000, b" " * 1000)
        answer = await caller.send("oxp", "call", "POST", "/oxp/tools/call", content=body)
        assert (answer.status, answer.headers["ratelimit"]) == (status, f'"once";r=0;t={DAY_S}')


async def test_a_forbidden_call_spends_only_its_callers_limit(start: Start, server: ToolServer) -> None:
    """Ours: else callers without the scope could use up the limit of those who have it."""
    shared = [limit("of-the-tool", "tool", 2), limit("of-the-route", "route", 2)]
    routes = [{"tools": "Echo.*", "backend": "scripted", "scopes": ["echo"]}]
    text = config({"scripted": server.url}, routes, auth=AUTH, rate_limits=[limit("own", "caller", 3), *shared])
    caller = (await start(text)).caller
    stranger, known = caller.with_token(token("bob")), caller.with_token(token(scope="echo"))
    answers = [await stranger.call("oxp", "Echo.Say") for _ in range(4)]
    assert [answer.status for answer in answers] == [403, 403, 403, 429]
    assert answers[-1].headers["ratelimit"] == f'"own";r=0;t={DAY_S}'
    assert [(await known.call("oxp", "Echo.Say")).status for _ in range(3)] == [200, 200, 429]


async def test_what_one_limit_refuses_is_not_counted_by_the_others(start: Start, server: ToolServer) -> None:
    echoes = limit("echoes", "caller+tool", 1, tools=["Echo.*"])
    gateway = await limited(start, server, limit("all", "caller", 3), echoes)
    caller = gateway.caller
    assert (await caller.call("oxp", "Echo.Say")).status == 200
    for _ in range(5):
        refused = await caller.call("oxp", "Echo.Say")
        assert (refused.status, refused.headers["ratelimit"]) == (429, f'"echoes";r=0;t={DAY_S}')
    other = await caller.call("oxp", "Count.Up", {"n": 1})
    assert (other.status, other.headers["ratelimit"]) == (200, f'"all";r=1;t={DAY_S}')
    assert await samples(gateway, "toolgate_rate_limited_total") == {"{rule=echoes}": 5}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_polls_have_a_limit_of_their_own(start: Start, server: ToolServer, method: str) -> None:
    limits = limit("polls", "caller", 2, operations=["poll"]), limit("calls", "caller", 2)
    caller = (await limited(start, server, *limits)).caller
    answer = await caller.call("oxp", "Echo.Say", {"n": 1}, call_id="mine")
    assert answer.headers["ratelimit"] == f'"calls";r=1;t={DAY_S}'
    kept = [await caller.send("oxp", "kept", method, "/calls/mine") for _ in range(2)]
    assert [it.headers["ratelimit"] for it in kept] == [f'"polls";r=1;t={DAY_S}', f'"polls";r=0;t={DAY_S}']
    assert [it.value for it in kept] == [{"n": 1}] * 2
    refused = await caller.send("bare", "kept", method, "/calls/mine")
    assert (refused.status, refused.headers["retry-after"]) == (429, str(DAY_S))
    assert limit_headers(refused) == (f'"polls";q=2;w={2 * DAY_S}', f'"polls";r=0;t={DAY_S}')
    assert (await caller.call("oxp", "Echo.Say")).headers["ratelimit"] == f'"calls";r=0;t={DAY_S}'


async def test_a_flood_of_bad_tokens_is_limited_by_address(start: Start, server: ToolServer) -> None:
    guesses = limit("guesses", "ip", 3, operations=["failed_verification"])
    trusting = {"trusted_proxies": ["127.0.0.0/8"]}
    text = config({"scripted": server.url}, rate_limits=[guesses], auth=AUTH, server=trusting)
    gateway = await start(text)
    forger = gateway.caller.with_token(token(secret=OTHER_SECRET))
    known = gateway.caller.with_token(token())

    async def status(caller: Caller, address: str) -> int:
        return (await caller.call("otc", "Echo.Say", headers={"x-forwarded-for": address})).status

    assert [await status(forger, HERE) for _ in range(3)] == [401] * 3
    flood = [status(forger, HERE) for _ in range(50)]
    served = [status(known, THERE) for _ in range(20)]
    answers = await asyncio.gather(*flood, *served)
    assert (set(answers[:50]), set(answers[50:])) == ({429}, {200})
    assert await status(known, HERE) == 429  # who shares the address waits as well
    assert await samples(gateway, "toolgate_rate_limited_total") == {"{rule=guesses}": 51}
    assert await samples(gateway, "toolgate_auth_failures_total") == {"{reason=signature}": 3}


async def test_cheaply_refused_credentials_are_not_counted(start: Start, server: ToolServer) -> None:
    """Ours: an agent without a token, or behind one, must not shut out those who have one."""
    guesses = limit("guesses", "ip", 1, operations=["failed_verification"])
    caller = (await limited(start, server, guesses, auth=AUTH)).caller
    for credential in ("", "Basic x", "Bearer rubbish", "Bearer a.b.c"):
        headers = {"authorization": credential} if credential else {}
        assert (await caller.call("otc", "Echo.Say", headers=headers)).status == 401
    assert (await caller.with_token(token()).call("otc", "Echo.Say")).status == 200


async def test_failed_verifications_are_limited_by_default(start: Start, server: ToolServer) -> None:
    gateway = await limited(start, server, auth=AUTH)
    forger = gateway.caller.with_token(token(secret=OTHER_SECRET))
    answers = await asyncio.gather(*(forger.call("otc", "Echo.Say") for _ in range(400)))
    assert {answer.status for answer in answers} == {401, 429}
    assert [answer.status for answer in answers].count(401) >= 100
    assert (await samples(gateway, "toolgate_rate_limited_total")).keys() == {"{rule=failed-verifications}"}
