"""What the tests look at: the demonstration fleet, tool servers with tools of the tests, and a gateway before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.demo.fleet import start_fleet
from tests.support import calling, processes
from tests.support.processes import GatewayProcess, Settings
from tests.support.tokens import SECRET, token
from tests.support.toolserver import Exchange, Handler, ToolServer, definition, echo, tool_server

CRUMBS = {
    "owner_id": "00000000-0000-0000-0000-000000000001",
    "agent_id": "00000000-0000-0000-0000-00000000d003",
    "toolkit": "Crumbs",
}
SCOPE = "forms:fill"
MANY = 10_000

# What a tool server may write if it means harm: markup, links and pictures of Markdown, and marks that turn text round.
ATTACK_HTML = (
    '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
    "<a href=\"javascript:document.title='owned'\">press</a><style>body{display:none}</style></textarea></pre><!--"
)
ATTACK_MARKDOWN = (
    "![x](http://198.51.100.7/x.png) [press](javascript:document.title='owned') <http://198.51.100.7/>\n# Big"
)
ATTACKS = (ATTACK_HTML, ATTACK_MARKDOWN)

EVERY_KIND: dict[str, Any] = {
    "type": "object",
    "title": "An order",
    "properties": {
        "name": {"type": "string", "description": "Who orders.", "minLength": 2},
        "note": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "weight": {"type": "number"},
        "express": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "size": {"enum": [1, "two", None]},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{4}$"}},
            "required": ["street"],
        },
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"article": {"type": "string"}, "amount": {"type": "integer"}},
                "required": ["article"],
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}},
        "payment": {
            "oneOf": [
                {"title": "card", "type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]},
                {"title": "cash", "type": "object", "properties": {"cash": {"type": "number"}}, "required": ["cash"]},
            ]
        },
        "anything": {},
    },
    "required": ["name", "count"],
    "additionalProperties": False,
}


def hostile_definition() -> dict[str, Any]:
    """A tool all words of which are attacks."""
    schema = {
        "type": "object",
        "title": ATTACK_HTML,
        "description": ATTACK_MARKDOWN,
        "properties": {
            "choice": {"type": "string", "title": ATTACK_HTML, "enum": list(ATTACKS), "description": ATTACK_MARKDOWN},
            ATTACK_HTML: {"type": "string", "default": ATTACK_MARKDOWN, "examples": [ATTACK_HTML]},
        },
    }
    described = ATTACK_HTML + ATTACK_MARKDOWN
    return definition("Hostile.Attack", description=described, input_schema={"parameters": schema})


async def attack(exchange: Exchange) -> None:
    """The tool the result of which is an attack."""
    await exchange.finish(value={"text": ATTACK_HTML, ATTACK_MARKDOWN: list(ATTACKS)})


async def fail(exchange: Exchange) -> None:
    """The tool that fails in words that are an attack."""
    await exchange.finish(error={"message": ATTACK_HTML, "developer_message": ATTACK_MARKDOWN, "can_retry": False})


@dataclass
class Waiting:
    """The tool that answers when the test says so, or the gateway has given up."""

    release: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        closed = asyncio.ensure_future(exchange.until_closed())
        released = asyncio.ensure_future(self.release.wait())
        done, open_ = await asyncio.wait((closed, released), return_when=asyncio.FIRST_COMPLETED)
        for task in open_:
            task.cancel()
        await asyncio.wait(open_)  # the connection may be read for the next request only then
        if released in done:
            await exchange.finish(value="released")
        else:
            self.given_up += 1


@dataclass(frozen=True)
class Site:
    """One gateway, and what is behind it."""

    gateway: GatewayProcess
    own: ToolServer
    waiting: Waiting

    @property
    def url(self) -> str:
        return self.gateway.admin_url

    @property
    def token(self) -> str:
        """A credential for everything."""
        return token("ada", scope=SCOPE)

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[httpx.AsyncClient]:
        """A caller beside the console, with that credential."""
        async with calling.caller(self.gateway.url, headers={"authorization": f"Bearer {self.token}"}) as http:
            yield http


def own_tools(waiting: Waiting) -> tuple[dict[str, Handler], list[dict[str, Any]]]:
    """The tools of the tests: what they do, and how they are listed."""
    handlers: dict[str, Handler] = {
        "Hostile.Attack": attack,
        "Hostile.Fail": fail,
        "Forms.Everything": echo,
        "Slow.Wait": waiting,
    }
    definitions = [
        hostile_definition(),
        definition("Hostile.Fail", description=ATTACK_MARKDOWN),
        definition("Forms.Everything", description="Takes an order.", input_schema={"parameters": EVERY_KIND}),
        definition("Slow.Wait", description="Waits until it is let go."),
    ]
    return handlers, definitions


def fleet_backends(fleet: Any) -> dict[str, Settings]:
    """The backends of `toolgate demo`."""
    return {
        "office": {"protocol": "otc", "url": fleet["otc"]},
        "postbox": {"protocol": "oxp", "url": fleet["oxp"]},
        "builds": {"protocol": "callback", "url": fleet["rap"]},
        "crumbs": {"protocol": "rcrt", "url": fleet["rcrt"], **CRUMBS},
        "studio": {"protocol": "mcp", "url": f"{fleet['mcp']}/mcp", "toolkit": "Studio"},
        "weather": {
            "protocol": "openapi",
            "url": fleet["openapi"],
            "document": f"{fleet['openapi']}/openapi.json",
            "toolkit": "Weather",
        },
    }


@asynccontextmanager
async def fleet_site(**more: Any) -> AsyncIterator[Site]:
    """Runs everything; callers need a token."""
    waiting = Waiting()
    handlers, definitions = own_tools(waiting)
    async with start_fleet() as fleet, tool_server(handlers, definitions) as own:
        backends = {**fleet_backends(fleet), "own": {"protocol": "otc", "url": own.url}}
        config = processes.settings(backends, auth={"jwt": [{"secret": SECRET}]}, **more)
        for route in config["routes"]:
            if route["backend"] == "builds":
                route["timeout"] = "3s"  # a longer call goes on, as in the demonstration
        config["routes"].insert(0, {"tools": "Forms.*", "backend": "own", "scopes": [SCOPE]})
        async with processes.gateway(config) as running:
            yield Site(running, own, waiting)


@asynccontextmanager
async def large_site() -> AsyncIterator[GatewayProcess]:
    """Runs a gateway with 10,000 tools; anybody may call."""
    definitions = [
        definition(f"Kit{number // 100}.Tool{number}", description=f"Does thing {number} of many.")
        for number in range(MANY)
    ]
    async with tool_server({}, definitions) as own:
        config = processes.settings({"many": {"protocol": "otc", "url": own.url}})
        async with processes.gateway(config) as running:
            yield running
