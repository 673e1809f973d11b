"""What a caller and an operator entrust to a gateway, everything a tool server can do with it, and who could see it.

Each secret is a canary, a text that exists nowhere else; the gateway is configured with one wherever one goes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.live.calls.site import AGENT_ID, OWNER_ID
from tests.support.calling import call
from tests.support.processes import Settings, settings
from tests.support.redis_server import RedisServer
from tests.support.toolserver import Exchange, Handler, ToolServer, definition, echo

SIGNING_SECRET = "canary-signing-" + secrets.token_hex(16)
NEEDY = definition(
    "Lab.Needy",
    requirements={"authorization": [{"id": "door"}], "secrets": [{"id": "KEY"}, {"id": "OURS"}], "user_id": True},
)
PICKY = definition("Lab.Picky", output_schema={"type": "object", "properties": {"text": {"maxLength": 1}}})


@dataclass
class Canaries:
    """Texts that exist nowhere else, by what they stand for."""

    made: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.made.setdefault(name, f"canary-{name.replace(' ', '-')}-{secrets.token_hex(8)}")

    def found_in(self, text: str) -> set[str]:
        """Which of them a text holds."""
        return {name for name, canary in self.made.items() if canary in text}


def token_of(subject: str, **claims: Any) -> str:
    return jwt.encode({"sub": subject, "exp": int(time.time()) + 600, **claims}, SIGNING_SECRET, "HS256")


def hostile_tools(canaries: Canaries) -> dict[str, Handler]:
    """Everything a tool server can do with what it knows, short of keeping it."""
    return {
        "Lab.Needy": lambda exchange: exchange.finish(value={"text": canaries["value"]}),
        "Lab.Echo": echo,
        "Lab.Fails": lambda exchange: exchange.finish(
            error={"message": canaries["failure"], "developer_message": canaries["failure details"]}
        ),
        "Lab.Crashes": lambda exchange: exchange.write(crash(canaries["reason phrase"], canaries["crash"])),
        "Lab.Refuses": lambda exchange: exchange.reply({"message": canaries["refusal"]}, status=400),
        "Lab.Rejects": lambda exchange: exchange.reply(
            {"message": canaries["rejection"], "parameter_errors": {canaries["parameter"]: canaries["problem"]}},
            status=422,
        ),
        "Lab.Babbles": lambda exchange: exchange.write(f"HTTP/9 {canaries['no status']}\r\n\r\n".encode()),
        "Lab.Mumbles": lambda exchange: exchange.reply({canaries["no member"]: canaries["no answer"]}),
        "Lab.Confuses": lambda exchange: exchange.reply(
            {"result": {"call_id": canaries["foreign call id"], "success": True, "value": canaries["foreign value"]}}
        ),
        "Lab.Picky": lambda exchange: exchange.finish(value={"text": canaries["wrong value"]}),
        "Lab.Challenges": lambda exchange: exchange.reply(challenges(exchange, canaries), status=400),
        "Lab.Holds": lambda exchange: exchange.until_closed(),
        "Lab.HangsUp": hang_up,
    }


def crash(reason: str, traceback: str) -> bytes:
    head = f"HTTP/1.1 500 {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(traceback)}"
    return f"{head}\r\n\r\n{traceback}".encode()


def challenges(exchange: Exchange, canaries: Canaries) -> dict[str, Any]:
    """Three of them: one in order, one that is checked elsewhere, one that sends users where they are not safe."""
    own = f"http://{exchange.request.header('host')}/{canaries['check']}"
    foreign = f"https://x.example/{canaries['foreign check']}"
    missing = [
        {"id": "c1", "url": "https://door.example/", "check_url": own},
        {"id": "c2", "url": "https://door.example/", "check_url": foreign},
        {"id": "c3", "url": f"http://x.example/{canaries['unsafe url']}"},
    ]
    return {"message": "Knock.", "missing_requirements": {"authorization": missing}}


async def hang_up(exchange: Exchange) -> None:
    exchange.reset()


async def trusting_session(http: httpx.AsyncClient, lab: ToolServer, canaries: Canaries) -> list[httpx.Response]:
    """Calls everything, with everything of one's own."""
    context = {
        "authorization": [{"id": "door", "token": canaries["token"]}, {"id": "other", "token": canaries["stray"]}],
        "secrets": [{"id": "KEY", "value": canaries["secret"]}],
        "user_id": canaries["user id"],
        "user_info": {"name": canaries["user info"]},
    }
    arguments = {canaries["argument name"]: [canaries["argument"]]}
    answers = [await call(http, tool, arguments, context=context, trace_id=canaries["trace"]) for tool in lab.tools]
    answers.append(await call(http, "Lab.Echo", {"n": 1}, call_id=canaries["call id"]))
    bodies = [
        canaries["no json"],
        json.dumps({"request": {"tool_id": "Lab.Echo", canaries["unknown member"]: 1}}),
        json.dumps({"request": {"tool_id": "Lab.Echo", "input": canaries["no object"]}}),
        json.dumps({"request": {"tool_id": "Lab.Echo", "context": {"secrets": [{"id": canaries["odd secret"]}]}}}),
        json.dumps({"$schema": canaries["no version"], "request": {"tool_id": "Lab.Echo"}}),
    ]
    media = {"Content-Type": "application/json"}
    answers += [await http.post("/otc/tools/call", content=body, headers=media) for body in bodies]
    answers.append(await http.post("/otc/tools/call", content=canaries["no media"], headers={"Content-Type": "a/b"}))
    secretive = (f"/{name}/{canaries[f'path of {name}']}?x={canaries['query']}" for name in ("challenges", "nothing"))
    answers += [await http.get(path) for path in secretive]
    answers += [await http.get(url) for url in [url for answer in answers for url in check_urls(answer)]]
    headers = {"Authorization": f"Bearer {token_of('mallory', note=canaries['claim'])}{canaries['signature']}"}
    answers.append(await http.get("/tools", headers=headers))
    return answers


def check_urls(answer: httpx.Response) -> list[str]:
    """Where the challenges in an answer are checked."""
    found = answer.json().get("missing_requirements", {}).get("authorization", [])
    return [challenge["check_url"] for challenge in found if "check_url" in challenge]


def as_text(answers: list[httpx.Response]) -> str:
    return "\n".join(f"{answer.status_code} {answer.headers} {answer.text}" for answer in answers)


class Seen:
    """Everything that somebody else could look at, by where it was seen."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def note(self, where: str, text: str) -> None:
        self.texts[where] = self.texts.get(where, "") + text + "\n"


def oxp_tools(canaries: Canaries) -> dict[str, Handler]:
    """A flat OXP server that answers, fails, and answers what it should not."""

    async def sends(exchange: Exchange) -> None:
        await exchange.reply({"call_id": exchange.request.call["call_id"], "success": True, "value": canaries["mail"]})

    async def bounces(exchange: Exchange) -> None:
        error = {"message": canaries["bounce"], "developer_message": canaries["bounce details"], "can_retry": True}
        await exchange.reply({"call_id": exchange.request.call["call_id"], "success": False, "error": error})

    async def garbles(exchange: Exchange) -> None:
        await exchange.reply([canaries["garbled"]], status=502)

    return {"Mail.Send": sends, "Mail.Bounce": bounces, "Mail.Garble": garbles}


async def oxp_list(exchange: Exchange) -> None:
    tools = [
        definition(f"Mail.{name}", input_schema={"type": "object"}, output_schema={})
        for name in ("Send", "Bounce", "Garble")
    ]
    await exchange.reply({"items": tools}, headers=[("OXP-Version", "1.0")])


def configuration(urls: dict[str, str], redis: RedisServer, port: int, canaries: Canaries) -> Settings:
    """Everything there is to configure, with a secret wherever one goes."""
    crumbs = {"url": urls["crumbs"], "owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": "Crumbs"}
    backends: dict[str, Settings] = {
        "lab": {
            "protocol": "otc",
            "url": urls["lab"],
            "timeout": "300ms",
            "auth": {"bearer": canaries["bearer"]},
            "forward_headers": ["x-tenant"],
        },
        "mail": {"protocol": "oxp", "url": urls["mail"], "auth": {"api_key": canaries["backend key"]}},
        "keeper": {
            "protocol": "callback",
            "url": urls["keeper"],
            "timeout": "500ms",
            "auth": {"jwt": {"secret": canaries["backend secret"] + "-of-32-bytes-and-more"}},
        },
        "crumbs": {"protocol": "rcrt", "timeout": "10s", **crumbs},
        "studio": {
            "protocol": "mcp",
            "url": urls["studio"],
            "toolkit": "Studio",
            "auth": {"header": {"name": "X-Key", "value": canaries["studio key"]}},
        },
        "gone": {"protocol": "otc", "url": "http://127.0.0.1:1"},
    }
    ours = {"OURS": canaries["route secret"]}
    return settings(
        backends,
        server={"port": port, "admin": {"port": 0}, "public_url": f"http://127.0.0.1:{port}"},
        auth={
            "jwt": [{"secret": SIGNING_SECRET}],
            "api_keys": [{"id": "job", "hash": f"sha256:{hashlib.sha256(canaries['api key'].encode()).hexdigest()}"}],
        },
        routes=[{"tools": "*", "backend": name, "secrets": ours} for name in backends],
        state={"url": redis.url, "keys": [canaries["state key"] + "-of-32-characters-and-more"]},
        rate_limits=[
            {"name": "all", "key": "caller", "rate": "1000/s"},
            {"name": "dear", "key": "caller+tool+ip", "rate": "2/h", "tools": ["Mail.Send*"]},
        ],
        metrics={"token": canaries["metrics token"]},
    )


@asynccontextmanager
async def overheard(redis: RedisServer, seen: Seen) -> AsyncIterator[None]:
    """Notes every command that Redis is sent, scripts with all that is handed to them included, while it lives."""
    client = Redis.from_url(redis.url)

    async def listen() -> None:
        with suppress(RedisError):
            async with client.monitor() as monitor:
                async for command in monitor.listen():
                    seen.note("commands of Redis", command["command"])

    task = asyncio.create_task(listen())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await client.aclose()


def note_stored(directory: Path, seen: Seen) -> None:
    """What Redis has on its disk, which is every change there ever was."""
    for path in directory.rglob("*"):
        if path.is_file():
            seen.note("disk of Redis", path.read_bytes().decode("latin-1"))
