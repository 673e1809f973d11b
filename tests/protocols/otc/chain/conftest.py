"""Gateways in front of a gateway in front of the demonstration fleet, each a process, with credentials on every hop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
import jwt
import pytest

from gateway.demo.fleet import start_fleet
from tests.protocols.otc.chain import lab
from tests.support.calling import caller
from tests.support.processes import Settings, gateway, settings, until_listed
from tests.support.toolserver import ToolServer, echo, tool_server

FLEET_TOKEN = "what-the-fleet-asks-for"
INNER_SECRET = "what-the-gateways-before-it-sign-with"
NEVER_OPEN = {"failures": 0}  # calls that go wrong on purpose must not have others refused
OUTER_SECRET = "what-the-callers-of-the-chain-sign-with"

# What lies between the two gateways: the outer one's backends, each with its protocol, its dialect, the prefix it
# calls the inner one under, and the tools it is used for. One outer gateway learns all its dialects by itself.
LINKS = {
    "rfc": [("otc", "rfc", "/rfc", "*")],
    "otc": [("otc", "otc", "/otc", "*")],
    "oxp": [("oxp", "oxp", "/oxp", "*")],
    "oxp-env": [("oxp", "oxp-env", "/oxp-env", "*")],
    "lc": [("otc", "lc", "/lc", "*")],
    "learned": [
        ("otc", "auto", "", "Calculator.*"),
        ("oxp", "auto", "", "Mail.*"),
        ("otc", "auto", "/rfc", "Lab.*"),
        ("oxp", "auto", "/oxp-env", "Text.*"),
        ("otc", "auto", "/lc", "Sms.*"),
        ("oxp", "auto", "/oxp", "*"),
    ],
}


@dataclass(frozen=True)
class Chain:
    """Callers with good tokens of the inner gateway and of an outer one for each link; the tool server behind all."""

    inner: httpx.AsyncClient
    outer: dict[str, httpx.AsyncClient]
    lab: ToolServer


@asynccontextmanager
async def _caller(url: str, secret: str) -> AsyncIterator[httpx.AsyncClient]:
    token = jwt.encode({"sub": "chain", "exp": int(time.time()) + 600}, secret, "HS256")
    async with caller(url, headers={"Authorization": f"Bearer {token}"}) as http:
        yield http


def _auth(secret: str) -> Settings:
    return {"jwt": [{"secret": secret}]}


def _outer(inner_url: str, link: str) -> Settings:
    backends = {
        f"hop{number}": {
            "protocol": protocol,
            "dialect": dialect,
            "url": inner_url + prefix,
            "auth": {"jwt": {"secret": INNER_SECRET}},
            "breaker": NEVER_OPEN,
        }
        for number, (protocol, dialect, prefix, _) in enumerate(LINKS[link])
    }
    routes = [{"tools": tools, "backend": f"hop{number}"} for number, (*_, tools) in enumerate(LINKS[link])]
    return settings(backends, routes=routes, auth=_auth(OUTER_SECRET))


@pytest.fixture(scope="package")
async def chain() -> AsyncIterator[Chain]:
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(start_fleet(token=FLEET_TOKEN))
        laboratory = await stack.enter_async_context(tool_server(lab.TOOLS, listing=lab.list_tools))
        backends: dict[str, Settings] = {
            "office": {"protocol": "otc", "url": fleet["otc"], "auth": {"bearer": FLEET_TOKEN}},
            "postbox": {"protocol": "oxp", "url": fleet["oxp"], "auth": {"bearer": FLEET_TOKEN}},
            "lab": {"protocol": "otc", "url": laboratory.url},
        }
        async with tool_server({"Gone.Away": echo}) as gone:
            backends["gone"] = {"protocol": "otc", "url": gone.url}
            for backend in backends.values():
                backend["breaker"] = NEVER_OPEN
            inner = await stack.enter_async_context(gateway(settings(backends, auth=_auth(INNER_SECRET))))
            await until_listed(inner)
        starting = (stack.enter_async_context(gateway(_outer(inner.url, link))) for link in LINKS)
        outer = dict(zip(LINKS, await asyncio.gather(*starting), strict=True))
        for running in outer.values():
            await until_listed(running)
        yield Chain(
            await stack.enter_async_context(_caller(inner.url, INNER_SECRET)),
            {
                link: await stack.enter_async_context(_caller(running.url, OUTER_SECRET))
                for link, running in outer.items()
            },
            laboratory,
        )
