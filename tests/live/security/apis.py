"""An HTTP API of the test, a gateway process in front of it, and a caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.calling import caller
from tests.support.httpapi import Api, http_api
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import Handler


@dataclass(frozen=True)
class Site:
    """All three, running."""

    api: Api
    running: GatewayProcess
    http: httpx.AsyncClient


@asynccontextmanager
async def api_site(paths: Any, handler: Handler, auth: Any = None, **members: Any) -> AsyncIterator[Site]:
    """Runs them, with all operations as tools, however often the API fails; `members` are those of its document."""
    keys = {"breaker": {"failures": 0}, "operations": {"methods": ["all"]}}
    async with (
        http_api(paths, handler, **members) as api,
        gateway(settings({"api": api.backend(**keys, **({} if auth is None else {"auth": auth}))})) as running,
        caller(running.url) as http,
    ):
        yield Site(api, running, http)
