"""Nothing entrusted to the gateway is seen where it has no business, through every kind of call and failure.

Logs, whatever else it prints, metrics, the detailed health, answers to other callers and, in clear, Redis: of the
latter all that was ever sent there, and all that it has written to its disk. With two lives of the gateway and two of
Redis, since what is being put right is where care is forgotten.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.security.confidant import Confidant, confidant
from tests.live.security.entrusted import (
    NEEDY,
    PICKY,
    SIGNING_SECRET,
    Canaries,
    Seen,
    as_text,
    configuration,
    hostile_tools,
    note_stored,
    overheard,
    oxp_list,
    oxp_tools,
    token_of,
    trusting_session,
)
from tests.live.security.speaking_mcp import hostile_server, mcp_session
from tests.protocols.mcp.server_double import serving
from tests.support.calling import call, caller
from tests.support.ports import lasting_port
from tests.support.processes import GatewayProcess, demo_server, gateway, until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.toolserver import ToolServer, definition, tool_server

pytestmark = pytest.mark.anyio

OPERATIONS = ("answers", "fails", "babbles", "asks", "chooses", "keeps", "forgets", "late")
ARRIVED = {
    *("value", "failure", "mail", "bounce", "called back", "called back failure", "asynchronous"),
    *("crumb", "crumb without id", "kept for the second life", "called back without Redis"),
    *("refusal", "rejection", "wrong value", "argument"),
    *("studio value", "studio failure", "studio error", "studio crash", "studio url"),
    *("mcp argument", "legacy argument", "request state", "session id"),
}
SENT_ON = {
    *("token", "secret", "route secret", "argument", "letter", "bearer", "backend key", "kept user", "held"),
    *("user id", "tenant"),
    *("lent token", "lent secret", "mcp argument", "legacy argument", "studio argument", "studio key"),
}
NOT_SENT_ON = {
    *("jwt", "cookie", "stray", "signing", "claim", "call id", "api key", "state key", "metrics token"),
    *("client name", "client version", "progress token", "json-rpc id", "stray param", "baggage", "mcp call id"),
    *("request state", "session id", "legacy client name"),
}
# What not even the caller concerned may receive.
CONFIDENTIAL = {
    *("signing", "bearer", "route secret", "check", "foreign check", "unsafe url", "crash"),
    *("studio key", "studio log", "studio babble"),
}
# What lines of requests name: the ids that callers give their calls, and nothing else.
IN_LOGS = re.compile(r"(kept |crumb |mcp )?call id( of .*)?|held id|no state id")
LOGGED = (
    "a tool server gave a broken answer",
    "a tool server did not complete its answer",
    "a result does not fit its tool's output schema",
)
LOOKED_AT = {
    "log of the first life": "a tool server gave a broken answer",
    "log of the second life": "the state cannot be reached",
    "answers to another caller": "You have no call with this id.",
    "metrics": "toolgate_build_info",
    "detailed health": "crumbs",
    "commands of Redis": "EVALSHA",
    "disk of Redis": "toolgate:",
}
# What another caller tries.
TRIED_TOOLS = (
    *("Lab.Echo", "Lab.HangsUp", "Lab.Holds", "Lab.Needy", "Lab.No", "Mail.Garble"),
    *("Keeper.nothing", "Gone.Tool", "Crumbs.nothing"),
)
TRIED_PATHS = (
    *("/tools", "/oxp/tools", "/lc/tools", "/openapi.json", "/health", "/metrics"),
    *("/challenges/x", "/callbacks/x", "/nothing"),
)
REMEMBERED_S = 20.0  # for a replica's death to be noticed (a lease of 10 s), on a busy machine


async def kept_session(http: httpx.AsyncClient, keeper: Confidant, canaries: Canaries) -> list[httpx.Response]:
    """Calls that are kept, by callback and by breadcrumb, with everything that may come back."""
    context = {"user_id": canaries["kept user"], "secrets": [{"id": "KEY", "value": canaries["kept secret"]}]}

    async def kept(operation: str, **members: Any) -> httpx.Response:
        keeper.taken.pop(operation, None)
        arguments = {"text": canaries[f"kept argument of {operation}"]}
        return await call(http, f"Keeper.{operation}", arguments, context=context, **members)

    answers: list[httpx.Response] = []
    messages: dict[str, dict[str, Any] | str] = {
        "answers": {"type": "tool_result", "text": json.dumps({"value": canaries["called back"]})},
        "fails": {"type": "tool_result", "text": f"Error: {canaries['called back failure']}"},
        "babbles": f'{{"type": "tool_result", {canaries["called back nonsense"]}',
        "asks": {"type": "oauth", "auth_url": f"http://unsafe.example/{canaries['auth url']}"},
        "chooses": {"type": "user_choice", "prompt": canaries["prompt"], "choices": [canaries["choice"]], "default": 0},
    }
    for operation, message in messages.items():
        asked = asyncio.create_task(kept(operation, call_id=canaries[f"kept call id of {operation}"]))
        await keeper.has(operation)
        token = keeper.taken[operation]["callback_url"].rpartition("/")[2]
        canaries.made[f"callback token of {operation}"] = token.partition(".")[2]
        await keeper.says(operation, message)
        await keeper.says(operation, {"type": "tool_result", "text": canaries["said too late"]})
        answers += [await asked, await http.get(f"/calls/{canaries[f'kept call id of {operation}']}")]
    headers = {"Prefer": "respond-async"}
    body = {"request": {"tool_id": "Lab.Echo", "input": {"text": canaries["asynchronous"]}}}
    answers.append(await http.post("/otc/tools/call", json=body, headers=headers))
    answers.append(await http.get(answers[-1].headers["location"]))
    answers.append(await call(http, "Crumbs.echo", {"message": canaries["crumb"]}, call_id=canaries["crumb call id"]))
    answers.append(await call(http, "Crumbs.echo", {"message": canaries["crumb without id"]}))
    return answers


async def plain_session(http: httpx.AsyncClient, canaries: Canaries) -> list[httpx.Response]:
    """Calls of the OXP server, of one that is not there, and of a limit."""
    arguments = {"text": canaries["letter"]}
    answers = [await call(http, f"Mail.{tool}", arguments) for tool in ("Bounce", "Garble", "Send", "Send", "Send")]
    answers.append(await call(http, "Gone.Tool", arguments))
    answers.append(await call(http, canaries["no tool"] + ".Tool", arguments))
    key = {"Authorization": "", "OXP-API-Key": canaries["api key"]}
    answers.append(await http.post("/oxp/call", json={"tool_id": "Mail.Send", "input": arguments}, headers=key))
    wrong = {"Authorization": "", "OXP-API-Key": canaries["wrong api key"]}
    answers.append(await http.post("/oxp/call", json={"tool_id": "Mail.Send", "input": arguments}, headers=wrong))
    return answers


async def note_curious(running: GatewayProcess, canaries: Canaries, kept: list[str], seen: Seen) -> None:
    """Notes what somebody finds who has entrusted nothing and knows the ids of others' calls."""
    async with caller(running.url, headers={"Authorization": f"Bearer {token_of('bob')}"}) as http:
        answers = [await call(http, tool, {}) for tool in TRIED_TOOLS]
        answers += [await http.request(method, f"/calls/{one}") for one in kept for method in ("GET", "DELETE")]
        answers += [await http.get(path) for path in TRIED_PATHS]
        answers.append(await http.post("/callbacks/x.y.z", json={}))
        answers.append(await call(http, "Lab.Echo", {}, call_id="bobs"))
    mentioned = {f"/calls/{one}" for one in kept}
    for answer in answers:
        assert not (answer.status_code in (200, 202) and answer.request.url.path in mentioned)
    seen.note("answers to another caller", as_text(answers))
    async with plainhttp.async_client() as http:
        scraped = await http.get(f"{running.admin_url}/metrics")
        allowed = await http.get(
            f"{running.url}/metrics", headers={"Authorization": f"Bearer {canaries['metrics token']}"}
        )
        assert (scraped.status_code, allowed.status_code) == (200, 200)
        assert b"toolgate_build_info" in scraped.content
        seen.note("metrics", scraped.text + allowed.text)
        seen.note("detailed health", (await http.get(f"{running.admin_url}/health")).text)


async def first_life(
    running: GatewayProcess, lab: ToolServer, keeper: Confidant, canaries: Canaries, seen: Seen
) -> str:
    """Everything alice does, until the gateway is killed in the middle of it. Returns her answers."""
    async with caller(running.url, headers=alice(canaries)) as http:
        answers = await trusting_session(http, lab, canaries)
        answers += await plain_session(http, canaries)
        answers += await mcp_session(http, lab, canaries)
        answers += await kept_session(http, keeper, canaries)
        kept = [answer.headers["toolgate-call-id"] for answer in answers if "toolgate-call-id" in answer.headers]
        await note_curious(running, canaries, [*kept, canaries["kept call id of answers"]], seen)
        for operation in ("keeps", "forgets"):
            arguments = {"text": canaries[f"argument of what {operation}"]}
            await call(http, f"Keeper.{operation}", arguments, call_id=canaries[f"call id of what {operation}"])
        held = {
            "request": {"tool_id": "Lab.Holds", "input": {"text": canaries["held"]}, "call_id": canaries["held id"]}
        }
        before = len(lab.calls("Lab.Holds"))
        waiting = asyncio.create_task(http.post("/otc/tools/call", json=held))
        await until(lambda: len(lab.calls("Lab.Holds")) > before, "it is held")
        running.process.kill()
        await running.process.wait()
        with suppress(httpx.TransportError):
            await waiting
    return as_text(answers)


async def second_life(
    running: GatewayProcess, redis: RedisServer, keeper: Confidant, canaries: Canaries, seen: Seen
) -> str:
    """What comes for the calls of the first life, some of it while Redis is away. Returns alice's answers."""
    answers = []
    async with caller(running.url, headers=alice(canaries)) as http:
        assert await keeper.says("keeps", {"type": "tool_result", "text": canaries["kept for the second life"]}) == 200
        answers.append(await http.get(f"/calls/{canaries['call id of what keeps']}"))
        redis.kill()
        said = {"type": "tool_result", "text": canaries["called back without Redis"]}
        assert await keeper.says("forgets", said) == 200
        answers.append(await call(http, "Lab.Echo", {"text": canaries["no state"]}, call_id=canaries["no state id"]))
        redis.start()

        async def arrived() -> bool:
            answer = await http.get(f"/calls/{canaries['call id of what forgets']}")
            answers.append(answer)
            return canaries["called back without Redis"] in answer.text

        async with overheard(redis, seen):
            await until(arrived, "what was called back meanwhile is there", REMEMBERED_S)
            await note_curious(running, canaries, [canaries["call id of what keeps"]], seen)
    return as_text(answers)


def alice(canaries: Canaries) -> dict[str, str]:
    token = canaries.made.setdefault("jwt", token_of("alice"))
    return {"Authorization": f"Bearer {token}", "Cookie": canaries["cookie"], "X-Tenant": canaries["tenant"]}


async def test_nothing_entrusted_to_the_gateway_is_seen_where_it_has_no_business(tmp_path: Path) -> None:
    canaries, seen = Canaries({"signing": SIGNING_SECRET}), Seen()
    tools = hostile_tools(canaries)
    definitions = [definition(tool) for tool in tools if tool not in ("Lab.Needy", "Lab.Picky")] + [NEEDY, PICKY]
    with running_redis(tmp_path, lasting=True) as redis:
        redis.empty()
        async with (
            tool_server(tools, definitions) as lab,
            tool_server(oxp_tools(canaries), [], oxp_list) as mail,
            confidant(*OPERATIONS) as keeper,
            demo_server("rcrt") as crumbs,
            serving("modern", hostile_server(canaries)) as studio,
        ):
            urls = {"lab": lab.url, "mail": mail.url, "keeper": keeper.url, "crumbs": crumbs.url, "studio": studio.url}
            config = configuration(urls, redis, lasting_port(), canaries)
            async with overheard(redis, seen), gateway(config) as running:
                for_alice = await first_life(running, lab, keeper, canaries, seen)
                for message in LOGGED:
                    assert running.logged(message), message
                seen.note("log of the first life", running.log_text())
            async with gateway(config) as running:
                for_alice += await second_life(running, redis, keeper, canaries, seen)
                running.process.send_signal(signal.SIGTERM)
                assert await running.process.wait() == 0
                seen.note("log of the second life", running.log_text())
            of_studio = [talk.request for talk in studio.told]
            sent_on = "\n".join(
                f"{one.headers} {one.body!r}" for one in (*lab.requests, *mail.requests, *keeper.requests, *of_studio)
            )
        note_stored(tmp_path, seen)

    # The session was a real one: what should arrive did, and everybody who looked had something to look at.
    assert canaries.found_in(for_alice) >= ARRIVED
    assert canaries.found_in(sent_on) >= SENT_ON
    for where, what in LOOKED_AT.items():
        assert what in seen.texts[where], where

    found = {where: canaries.found_in(text) for where, text in seen.texts.items()}
    ids = {name for name in canaries.made if IN_LOGS.fullmatch(name)}
    assert {where: names - (ids if where.startswith("log of ") else set()) for where, names in found.items()} == {
        where: set() for where in found
    }
    assert "call id" in found["log of the first life"]
    assert canaries.found_in(sent_on) & NOT_SENT_ON == set()
    assert canaries.found_in(for_alice) & CONFIDENTIAL == set()
