"""A gateway in front of a tool server that calls back when a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.flow.caller import Answer, Caller
from tests.flow.gateways import PUBLIC_URL, Running, config, running, until
from tests.unit.net.client.scripted import Script, serving
from tests.unit.protocols.rap.calling_back import OK, Toolset

NOTHING: Mapping[str, Any] = {}
ASYNC = {"prefer": "respond-async"}
DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine


@dataclass(frozen=True)
class Invoked:
    """A call that was handed over. `body` is what the tool server got, `call_id` how the caller names the call."""

    gateway: Running
    body: dict[str, Any]
    call_id: str

    @property
    def path(self) -> str:
        return str(self.body["callback_url"]).removeprefix(PUBLIC_URL)

    def message(self, kind: str = "tool_result", **members: Any) -> dict[str, Any]:
        return {"type": kind, "group_id": self.body["group_id"], "id": self.body["id"], **members}

    async def post(self, message: Any, path: str | None = None, method: str = "POST", **headers: str) -> int:
        """Posts anything to the callback URL; returns the status of the answer."""
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {"content-type": "application/json"} | headers
        http = self.gateway.caller.http
        return (await http.request(method, path or self.path, content=content, headers=headers)).status_code

    async def bring(self, text: str) -> int:
        """Posts a result."""
        return await self.post(self.message(text=text))

    async def outcome(self) -> Any:
        """The value of the call, the message it failed with, or None while it runs."""
        answer = await self.gateway.caller.http.get(f"/calls/{self.call_id}")
        if answer.status_code == httpx.codes.ACCEPTED:
            return None
        result = answer.json()
        return result["value"] if result["success"] else result["error"]["message"]


@dataclass(frozen=True)
class Builds:
    """Begins calls of `builds.lint`; the test acts for the tool server, whose requests `toolset` has noted."""

    gateway: Running
    toolset: Toolset
    url: str

    @property
    def caller(self) -> Caller:
        return self.gateway.caller

    @property
    def paths(self) -> list[str]:
        """The paths of everything that was posted to the tool server."""
        return [path for path, _ in self.toolset.noted]

    async def call(self, **members: Any) -> Answer:
        return await self.caller.call("oxp", "builds.lint", **members)

    async def invoked(self, count: int = 1, call_id: str | None = None) -> Invoked:
        """The call that was handed over as number `count`, once it was."""
        await until(lambda: self.paths.count("/invoke") >= count)
        body = [body for path, body in self.toolset.noted if path == "/invoke"][count - 1]
        return Invoked(self.gateway, body, call_id or body["id"])

    async def begin(self, call_id: str = "k", **members: Any) -> Invoked:
        """Makes a call without waiting for its end."""
        count = self.paths.count("/invoke") + 1
        assert (await self.call(call_id=call_id, headers=ASYNC, **members)).status == 202
        return await self.invoked(count, call_id)

    async def answered(self, **members: Any) -> tuple[Answer, Invoked]:
        """A call whose result came while its caller waited."""
        async with asyncio.timeout(DEADLINE_S):
            calling = asyncio.create_task(self.call(**members))
            invoked = await self.invoked(self.paths.count("/invoke") + 1)
            assert await invoked.bring("done") == 200
            return await calling, invoked


@asynccontextmanager
async def builds(
    acknowledgement: bytes | Script = OK,
    *,
    backend: Mapping[str, Any] = NOTHING,
    route: Mapping[str, Any] = NOTHING,
    **sections: Any,
) -> AsyncIterator[Builds]:
    """Runs both. `backend` and `route` are further keys of the only ones, `sections` of the configuration."""
    toolset = Toolset(acknowledgement)
    async with serving(toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url, **backend}}
        routes = [{"tools": "*", "backend": "builds", **route}]
        async with running(config(backends, routes, **sections)) as gateway:
            yield Builds(gateway, toolset, server.url)
