"""Gateways for tests: the whole application in this process, asked over ASGI, its tool servers on real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.app import Gateway
from gateway.core.surfaces import Surface
from gateway.http.accesslog import AccessLog
from gateway.settings.load import read
from tests.flow.caller import Answer, Caller

PUBLIC_URL = "http://toolgate.test"
WAIT_S = 15.0  # for what the next refresh brings: one takes 1 s, the rest is for a busy machine
LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class Running:
    """A started gateway; `caller` has no credential."""

    gateway: Gateway
    caller: Caller

    def problems_of(self, backend: str) -> dict[str, str]:
        """The tools of a backend that are not published, each with the reason."""
        return {one.id: one.reason for one in self.gateway.catalogue.status(backend).rejected}


def config(
    backends: Mapping[str, Any],
    routes: Sequence[Any] | None = None,
    **sections: Any,
) -> str:
    """A configuration file in JSON, which is YAML.

    A backend may be only the URL of an OXP server; without routes everything is published, without `auth` to anybody.
    """
    named = {name: {"protocol": "oxp", "url": it} if isinstance(it, str) else it for name, it in backends.items()}
    if routes is None:
        routes = [{"tools": "*", "backend": name} for name in named]
    server = {"public_url": PUBLIC_URL, **sections.pop("server", {})}
    return json.dumps({"server": server, "auth": "none", "backends": named, "routes": routes, **sections})


@asynccontextmanager
async def running(
    text: str, *, wait: bool = True, access: AccessLog | None = None, surfaces: Sequence[Surface] = ()
) -> AsyncIterator[Running]:
    """Runs a gateway; with `wait` it is ready, which is to say that it has asked every backend."""
    gateway = Gateway(read(text, env={}), access=access, more_surfaces=surfaces)
    await gateway.start()
    try:
        if wait:
            await gateway.catalogue.wait_ready()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(gateway.public), base_url=PUBLIC_URL, trust_env=False
        ) as http:
            yield Running(gateway, Caller(http))
    finally:
        await gateway.aclose()


async def until(is_so: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Waits for a change that nothing announces."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - the gateway has no event for tests
            await asyncio.sleep(LOOK_AGAIN_S)


async def listed_until(caller: Caller, is_so: Callable[[Answer], bool]) -> Answer:
    """The first list of which something is true."""
    async with asyncio.timeout(WAIT_S):
        while not is_so(answer := await caller.list("oxp")):  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK_AGAIN_S)
        return answer
