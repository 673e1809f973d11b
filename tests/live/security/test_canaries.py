"""Nothing a caller entrusts to the gateway shows up in its log or in anybody else's answer, whatever goes wrong."""

from __future__ import annotations

import json
import secrets
import signal
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt
import pytest

from tests.support.calling import call, caller
from tests.support.processes import GatewayProcess, Settings, gateway, settings
from tests.support.toolserver import Exchange, Handler, ToolServer, definition, echo, tool_server

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


def config(url: str, canaries: Canaries) -> Settings:
    lab = {
        "protocol": "otc",
        "url": url,
        "timeout": "300ms",
        "auth": {"bearer": canaries["bearer"]},
        "forward_headers": ["x-tenant"],
    }
    route = {"tools": "*", "backend": "lab", "secrets": {"OURS": canaries["route secret"]}}
    return settings({"lab": lab}, routes=[route], auth={"jwt": [{"secret": SIGNING_SECRET}]})


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


async def curious_session(http: httpx.AsyncClient, running: GatewayProcess) -> list[httpx.Response]:
    """Does what shows most to somebody who has entrusted nothing."""
    answers = [await call(http, tool, {}) for tool in ("Lab.Echo", "Lab.HangsUp", "Lab.Holds", "Lab.Needy", "Lab.No")]
    paths = ("/tools", "/oxp/tools", "/lc/tools", "/health", "/openapi.json", "/challenges/x", "/nothing")
    return [*answers, *[await http.get(path) for path in paths], await http.get(f"{running.admin_url}/health")]


def told(answers: list[httpx.Response]) -> str:
    return "\n".join(f"{answer.status_code} {answer.headers} {answer.text}" for answer in answers)


@pytest.mark.anyio
async def test_what_one_caller_entrusts_appears_in_no_log_and_in_no_answer_to_another() -> None:
    canaries = Canaries({"signing": SIGNING_SECRET})
    tools = hostile_tools(canaries)
    definitions = [definition(tool) for tool in tools if tool not in ("Lab.Needy", "Lab.Picky")] + [NEEDY, PICKY]
    async with tool_server(tools, definitions) as lab, gateway(config(lab.url, canaries)) as running:
        alice, bob = token_of("alice"), token_of("bob")
        canaries.made["jwt"] = alice
        own = {"Authorization": f"Bearer {alice}", "Cookie": canaries["cookie"], "X-Tenant": canaries["tenant"]}
        async with caller(running.url, headers=own) as http:
            for_alice = told(await trusting_session(http, lab, canaries))
        async with caller(running.url, headers={"Authorization": f"Bearer {bob}"}) as http:
            for_bob = told(await curious_session(http, running))
        running.process.send_signal(signal.SIGTERM)
        assert await running.process.wait() == 0
        log = running.log_text()

        asked = "\n".join(f"{request.headers} {request.body.decode()}" for request in lab.requests)
        # The session was a real one: what should arrive did, and the gateway had something to log.
        assert canaries.found_in(asked) >= {
            "token",
            "secret",
            "route secret",
            "argument",
            "user id",
            "bearer",
            "tenant",
        }
        assert canaries.found_in(for_alice) >= {"value", "failure", "refusal", "rejection", "wrong value", "argument"}
        assert running.logged("a tool server gave a broken answer")
        assert running.logged("a tool server broke off")
        assert running.logged("a value breaks its tool's output schema")

        assert canaries.found_in(log) == set()
        assert canaries.found_in(for_bob) == set()
        assert canaries.found_in(asked) & {"jwt", "cookie", "stray", "signing", "call id", "claim"} == set()
        # Of what the gateway or a tool server is told in confidence, not even the caller concerned hears.
        confidential = {"signing", "bearer", "route secret", "check", "foreign check", "unsafe url", "crash"}
        assert canaries.found_in(for_alice) & confidential == set()
