"""A tool server of the test, a gateway process in front of it, and a caller: what most tests here need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.calling import caller
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import Handler, ToolServer, tool_server


@dataclass(frozen=True)
class Site:
    """All three, running."""

    lab: ToolServer
    running: GatewayProcess
    http: httpx.AsyncClient


@asynccontextmanager
async def site(tools: Mapping[str, Handler], *, listing: Handler | None = None, **backend: Any) -> AsyncIterator[Site]:
    """Runs them; `backend` are further settings of the one backend."""
    async with (
        tool_server(tools, listing=listing) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url} | backend})) as running,
        caller(running.url) as http,
    ):
        yield Site(lab, running, http)
