"""What a scrape says after each kind of request: these samples and no others. All of it is ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.flow.builds import builds
from tests.flow.caller import DIALECTS
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config
from tests.flow.keeping import begun, gated
from tests.flow.toolserver import Handler, ToolServer, always, hang_up, silence, tool
from tests.flow.watching import samples, scraped
from tests.streams import Request, http_reply
from tests.support.scraping import samples_of
from tests.support.tokens import OTHER_SECRET, SECRET, api_key, token

pytestmark = pytest.mark.anyio

CALLS, REQUESTS = "toolgate_tool_calls_total", "toolgate_requests_total"
TIMEOUT_S = 0.5
INVALID = http_reply(422, {"message": "No.", "parameter_errors": {"n": "no"}})
WORD = "zebra"  # of callers, that no label may hold


def failing(server: ToolServer) -> Handler:
    async def handle(received: Request) -> bytes:
        return server.failure(received, message="No.")

    return handle


# What the tool server does, what it is called with, and the status and outcome of the call.
Case = tuple[Handler | None, dict[str, Any], int, str]


def cases(server: ToolServer) -> Mapping[str, Case]:
    good = {"arguments": {"n": 1}}
    return {
        "a value": (None, good, 200, "ok"),
        "a tool error": (failing(server), good, 200, "tool_error"),
        "input that is wrong": (None, {"arguments": {"n": "x"}}, 422, "invalid"),
        "input the tool server refuses": (always(INVALID), good, 422, "invalid"),
        "a refusal of the tool server": (always(http_reply(400, {"message": "No."})), good, 400, "refused"),
        "our credential refused": (always(http_reply(401, {"message": "No."})), good, 400, "refused"),
        "no answer in time": (silence, good, 200, "timeout"),
        "an answer broken off": (hang_up, good, 200, "unknown"),
        "rubbish": (always(http_reply(200, b"rubbish")), good, 200, "tool_error"),
    }


async def counting(start: Start, server: ToolServer, **sections: Any) -> Running:
    routes = [{"tools": "*", "backend": "scripted", "timeout": f"{int(TIMEOUT_S * 1000)}ms"}]
    return await start(config({"scripted": server.url}, routes, **sections))


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("name", cases(ToolServer("")))
async def test_a_call_is_counted_once_by_outcome(start: Start, server: ToolServer, name: str, kept: bool) -> None:
    handler, asked, status, outcome = cases(server)[name]
    server.handler = handler or server.handler
    gateway = await counting(start, server)
    members: dict[str, Any] = {"call_id": "k"} if kept else {}
    answer = await gateway.caller.call("otc", "Count.Up", **asked, **members)
    assert answer.status == status
    labels = f"backend=scripted,outcome={outcome},protocol=oxp,tool=Count.Up"
    assert await samples(gateway, CALLS) == {f"{{{labels}}}": 1}
    assert await samples(gateway, REQUESTS) == {f"{{dialect=otc,operation=call,status={status}}}": 1}
    found = samples_of((await scraped(gateway)).encode())
    assert found["toolgate_request_duration_seconds_count{dialect=otc,operation=call}"] == 1
    assert found["toolgate_overhead_seconds_count"] == 1
    asked_of_it = found.get("toolgate_tool_call_duration_seconds_count{backend=scripted,protocol=oxp}", 0)
    assert asked_of_it == len(server.calls)
    assert found["toolgate_calls_in_flight{backend=scripted}"] == 0


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("late", ["value", "refusal", "failure", "silence", "nothing there"])
async def test_the_tool_servers_time_is_no_overhead(start: Start, server: ToolServer, late: str, kept: bool) -> None:
    pause_s = TIMEOUT_S / 10

    async def handle(received: Request) -> bytes:
        await asyncio.sleep(pause_s)  # it is the time itself that is measured here
        return http_reply(400, {"message": "No."}) if late == "refusal" else await answering(server, late)(received)

    server.handler = handle
    gateway = await counting(start, server)
    members: dict[str, Any] = {"call_id": "k"} if kept else {}
    await gateway.caller.call("oxp", "Count.Up", {"n": 1}, **members)
    found = samples_of((await scraped(gateway)).encode())
    duration_s = found["toolgate_request_duration_seconds_sum{dialect=oxp,operation=call}"]
    tool_s = found["toolgate_tool_call_duration_seconds_sum{backend=scripted,protocol=oxp}"]
    overhead_s = found["toolgate_overhead_seconds_sum"]
    assert 0 < overhead_s < duration_s
    assert tool_s >= pause_s * 0.99
    if kept:  # it is measured by itself, from when it was asked for until its end is written down
        assert overhead_s < duration_s - tool_s + pause_s / 2
    else:
        assert overhead_s == pytest.approx(duration_s - tool_s)


def answering(server: ToolServer, how: str) -> Handler:
    return {"value": server.echo, "failure": failing(server), "silence": silence, "nothing there": hang_up}[how]


async def test_a_joined_or_repeated_call_is_counted_once(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    gateway = await start(config({"scripted": server.url}))
    asking = [asyncio.create_task(gateway.caller.call("oxp", "Echo.Say", {}, call_id="k")) for _ in range(5)]
    await begun(server)
    left = asyncio.create_task(gateway.caller.call("oxp", "Echo.Say", {}, call_id="k"))
    await asyncio.sleep(TIMEOUT_S)  # they wait, and it is that time that must not be counted for each
    left.cancel()
    opened.set()
    await asyncio.gather(left, return_exceptions=True)
    assert {(await each).body for each in asking} == {
        (await gateway.caller.call("oxp", "Echo.Say", {}, call_id="k")).body
    }
    assert await samples(gateway, CALLS) == {"{backend=scripted,outcome=ok,protocol=oxp,tool=Echo.Say}": 1}
    assert sum((await samples(gateway, REQUESTS)).values()) == 7
    found = samples_of((await scraped(gateway)).encode())
    assert found["toolgate_tool_call_duration_seconds_count{backend=scripted,protocol=oxp}"] == 1 == server.executions
    assert found["toolgate_overhead_seconds_count"] == 7
    assert found["toolgate_overhead_seconds_sum"] < TIMEOUT_S


async def test_an_abandoned_call_counts_as_unknown_without_overhead(start: Start, server: ToolServer) -> None:
    server.handler = silence
    gateway = await start(config({"scripted": server.url}))
    left = asyncio.create_task(gateway.caller.call("oxp", "Echo.Say"))
    await begun(server)
    await asyncio.sleep(TIMEOUT_S)  # as above
    left.cancel()
    await asyncio.wait([left])
    assert await samples(gateway, CALLS) == {"{backend=scripted,outcome=unknown,protocol=oxp,tool=Echo.Say}": 1}
    assert await samples(gateway, REQUESTS) == {"{dialect=oxp,operation=call,status=499}": 1}
    assert samples_of((await scraped(gateway)).encode())["toolgate_overhead_seconds_sum"] < TIMEOUT_S


async def test_refusals_are_counted_with_their_tool_once_known(start: Start, server: ToolServer) -> None:
    server.tools.append(tool("Mail.Read", requirements={"user_id": True}))
    limits = [{"name": "dear", "key": "caller", "rate": "1/d", "burst": 3}]
    gateway = await start(config({"scripted": server.url}, rate_limits=limits))
    for name in ("Mail.Read", "Mail.Read", "No.Tool", "Echo.Say"):
        await gateway.caller.call("lc", name)
    assert await samples(gateway, CALLS) == {
        "{backend=scripted,outcome=refused,protocol=oxp,tool=Mail.Read}": 2,
        "{backend=scripted,outcome=refused,protocol=oxp,tool=Echo.Say}": 1,
    }
    assert await samples(gateway, REQUESTS) == {
        "{dialect=lc,operation=call,status=400}": 3,
        "{dialect=lc,operation=call,status=429}": 1,
    }
    assert await samples(gateway, "toolgate_rate_limited_total") == {"{rule=dear}": 1}
    assert not await samples(gateway, "toolgate_tool_call_duration_seconds_count")


async def test_lists_are_counted_by_dialect(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    tag = (await gateway.caller.list("oxp")).headers["etag"]
    await gateway.caller.list("oxp", headers={"if-none-match": tag})
    assert await samples(gateway, REQUESTS) == {
        "{dialect=oxp,operation=list,status=200}": 1,
        "{dialect=oxp,operation=list,status=304}": 1,
    }
    assert not await samples(gateway, CALLS)
    assert not await samples(gateway, "toolgate_overhead_seconds_count")


async def test_strict_refusals_are_counted_by_the_status_they_got(start: Start, server: ToolServer) -> None:
    auth = {"jwt": [{"secret": SECRET}]}
    gateway = await start(config({"scripted": server.url}, auth=auth, errors={"strict": True}))
    await gateway.caller.call("rfc", "Echo.Say")
    assert await samples(gateway, REQUESTS) == {"{dialect=rfc,operation=call,status=400}": 1}
    assert await samples(gateway, "toolgate_auth_failures_total") == {"{reason=missing}": 1}


KEY = "a key that nobody will ever guess"
AUTH = {
    "jwt": [
        {
            "issuer": "https://issuer.example",
            "secret": SECRET,
            "audience": ["toolgate"],
            "user_id_claim": "email",
            "max_lifetime": "1h",
        }
    ],
    "api_keys": [api_key("job", KEY)],
}
CLAIMS = {"iss": "https://issuer.example", "aud": "toolgate", "email": "a@b"}


def bearer(**claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {token(**CLAIMS | claims)}"}


def unknown() -> dict[str, dict[str, str]]:
    """Headers of callers that are not known, by the reason; made when they are used, for tokens expire."""
    now = int(time.time())
    return {
        "missing": {},
        "several": bearer() | {"oxp-api-key": KEY},
        "signature": bearer(secret=OTHER_SECRET),
        "expired": bearer(exp=now - 120),
        "user": bearer(email=None),
        "api_key": {"oxp-api-key": "another key that nobody will ever guess"},
    }


@pytest.mark.parametrize("reason", unknown())
async def test_auth_failures_are_counted_by_reason(start: Start, server: ToolServer, reason: str) -> None:
    gateway = await start(config({"scripted": server.url}, auth=AUTH))
    headers = unknown()[reason]
    for answer in (
        await gateway.caller.call("oxp", "Echo.Say", headers=headers),
        await gateway.caller.list("oxp", headers=headers),
        await gateway.caller.send("bare", "kept", "GET", "/calls/x", headers=headers),
    ):
        assert answer.status == 401
    assert await samples(gateway, "toolgate_auth_failures_total") == {f"{{reason={reason}}}": 3}
    assert not await samples(gateway, CALLS)


@pytest.mark.parametrize("reason", ["key", "no_keys"])
async def test_tokens_without_a_key_are_counted_by_reason(start: Start, server: ToolServer, reason: str) -> None:
    """The issuer publishes another key than the token names, or none at all."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    published = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "old", "use": "sig"}
    server.handler = always(http_reply(*((200, {"keys": [published]}) if reason == "key" else (404, b""))))
    issuer = {"issuer": "https://issuer.example", "jwks_url": f"{server.url}/jwks.json", "algorithms": ["RS256"]}
    gateway = await start(config({"scripted": server.url}, auth={"jwt": [issuer | {"audience": ["toolgate"]}]}))
    claims = {"sub": "a", "exp": int(time.time()) + 600, "iss": "https://issuer.example", "aud": "toolgate"}
    known = gateway.caller.with_token(jwt.encode(claims, key, "RS256", {"kid": "new"}))
    for answer in (await known.call("oxp", "Echo.Say"), await known.list("oxp")):
        assert answer.status == 401
    assert await samples(gateway, "toolgate_auth_failures_total") == {f"{{reason={reason}}}": 2}


async def test_callbacks_are_counted_by_backend_and_how_they_were_answered() -> None:
    async with builds() as server:
        gateway, invoked = server.gateway, await server.begin()
        assert not await samples(gateway, CALLS)
        assert await samples(gateway, "toolgate_pending_callbacks") == {"{backend=builds}": 1}
        result = invoked.message(text="done")
        for message, path in (
            (b"{", None),
            (result, invoked.path[:-1]),
            (result, f"/callbacks/{WORD}"),
            (result, None),
            (invoked.message(text="another"), None),
        ):
            await invoked.post(message, path)
        assert await samples(gateway, "toolgate_callbacks_total") == {
            "{backend=builds,outcome=refused}": 1,
            "{backend=builds,outcome=taken}": 1,
            "{backend=builds,outcome=late}": 1,
            "{backend=none,outcome=unknown}": 2,
        }
        assert not await samples(gateway, "toolgate_pending_callbacks")
        ended = "{backend=builds,outcome=ok,protocol=callback,tool=builds.lint}"
        assert await samples(gateway, CALLS) == {ended: 1}
        assert await samples(gateway, REQUESTS) == {
            "{dialect=oxp,operation=call,status=202}": 1,
            "{dialect=none,operation=callback,status=400}": 1,
            "{dialect=none,operation=callback,status=404}": 2,
            "{dialect=none,operation=callback,status=200}": 1,
            "{dialect=none,operation=callback,status=410}": 1,
        }


async def test_no_label_holds_a_word_of_a_caller_or_a_tool_server(start: Start, server: ToolServer) -> None:
    auth = {"jwt": [{"secret": SECRET, "user_id_claim": "email"}]}
    server.handler = always(http_reply(200, {WORD: WORD}))
    gateway = await start(config({"scripted": server.url}, auth=auth))
    known = gateway.caller.with_token(token(WORD, email=WORD, scope=WORD))
    marked = {"user-agent": WORD, "x-request-id": WORD, "oxp-version": WORD, "x-forwarded-for": WORD}
    for caller in (known, gateway.caller, gateway.caller.with_token(WORD)):
        for dialect in DIALECTS:
            await caller.http.post(f"/{dialect}/call", json={"request": {"tool_id": f"{WORD}.{WORD}"}}, headers=marked)
        await caller.call("oxp", f"Echo.{WORD}@{WORD}", headers={"user-agent": WORD})
        await caller.call("oxp", "Echo.Say", {WORD: WORD}, call_id=WORD, trace_id=WORD)
        for path in (f"/{WORD}", f"/{WORD}/tools", f"/calls/{WORD}", f"/challenges/{WORD}", f"/callbacks/{WORD}"):
            for method in ("GET", "POST", "DELETE", WORD.upper()):
                await caller.http.request(method, path)
    text = (await scraped(gateway)).lower()
    assert 'operation="poll"' in text
    assert WORD not in text


async def test_tools_beyond_max_tools_are_counted_together(start: Start, server: ToolServer) -> None:
    server.tools.append(tool("Text.Cut"))
    gateway = await start(config({"scripted": server.url}, metrics={"max_tools": 1}))
    for name, arguments in (("Echo.Say", {}), ("Count.Up", {"n": 1}), ("Text.Cut", {}), ("Echo.Say", {})):
        await gateway.caller.call("oxp", name, arguments)
    assert await samples(gateway, CALLS) == {
        "{backend=scripted,outcome=ok,protocol=oxp,tool=Echo.Say}": 2,
        "{backend=scripted,outcome=ok,protocol=oxp,tool=other}": 2,
    }
