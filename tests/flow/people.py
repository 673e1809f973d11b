"""A person with a browser who uses the public console of a gateway, and logs in at a provider on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from gateway.app import Gateway
from tests import plainhttp
from tests.flow.gateways import config
from tests.support.openid import Provider

URL = "https://toolgate.test"
DONE = "/console/login/done"
SCOPE = "toolgate:console"
VISIT = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
OWN_PAGE = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "origin": URL}


def public_console(provider: Provider, *, url: str = URL, login: Any = None, **sections: Any) -> str:
    """A configuration with a public console and a login at this provider."""
    at = {"issuer": provider.url, "client_id": "console", "scope": SCOPE} | (login or {})
    auth = {"jwt": [provider.entry]}
    server = {"public_url": url} | sections.pop("server", {})
    return config({}, auth=auth, console={"public": True, "login": at}, server=server, **sections)


class Person:
    """Somebody with a browser, which keeps cookies and follows redirects as one does."""

    def __init__(self, browser: httpx.AsyncClient, internet: httpx.AsyncClient) -> None:
        self.browser = browser
        self._internet = internet

    async def begin(self, query: str = "") -> str:
        """Asks to log in; returns where that leads."""
        answer = await self.browser.get(f"/console/login{query}", headers=VISIT)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def at_provider(self, url: str) -> str:
        """Logs in there; returns the path and query that the provider sends the browser back to."""
        answer = await self._internet.get(url)
        assert answer.status_code == 302, answer.text
        back = urlsplit(answer.headers["location"])
        return f"{back.path}?{back.query}"

    async def come_back(self, path: str) -> httpx.Response:
        return await self.browser.get(path, headers=VISIT)

    async def log_in(self, query: str = "") -> httpx.Response:
        """All of it; returns the last answer before the console."""
        return await self.come_back(await self.at_provider(await self.begin(query)))

    async def session(self) -> httpx.Response:
        """What the page of the console asks first."""
        origin = str(self.browser.base_url).rstrip("/")
        return await self.browser.get("/console/api/session", headers=OWN_PAGE | {"origin": origin})

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self.browser.cookies.jar}


@asynccontextmanager
async def person_at(gateway: Gateway, url: str = URL) -> AsyncIterator[Person]:
    """Somebody who has never been there."""
    transport = httpx.ASGITransport(gateway.public)
    async with (
        httpx.AsyncClient(transport=transport, base_url=url, trust_env=False) as browser,
        plainhttp.async_client() as internet,
    ):
        yield Person(browser, internet)
