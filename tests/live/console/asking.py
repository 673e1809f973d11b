"""What the page of the console asks of a running gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests import plainhttp
from tests.support.calling import WAIT_S
from tests.support.processes import GatewayProcess


class Console:
    """The questions, and what is sent with its help."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, question: str, **parameters: str) -> Any:
        answer = await self._http.get(f"/console/api/{question}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        return await self._http.post(f"/console/api/{path}", json=body)

    async def calls(self) -> dict[str, dict[str, Any]]:
        """The calls that run or wait, by their tools."""
        return {each["tool"]: each for each in (await self.get("calls"))["calls"]}

    async def cancel(self, id_: str) -> bool:
        answer = await self.post("calls/cancel", {"id": id_})
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["is_cancelled"])

    @asynccontextmanager
    async def sending(self, path: str, *, method: str = "GET", **more: Any) -> AsyncIterator[AsyncIterator[Any]]:
        """The lines that tell of a request to the listener for callers, as they come."""
        asked = {"method": method, "path": path, "headers": []} | more
        async with self._http.stream("POST", "/console/api/send", json=asked) as answer:
            if answer.status_code != 200:
                await answer.aread()
            assert answer.status_code == 200, answer.text
            yield (json.loads(line) async for line in answer.aiter_lines())

    async def sent(self, path: str, **more: Any) -> list[Any]:
        """All of these lines."""
        async with self.sending(path, **more) as lines:
            return [line async for line in lines]


@asynccontextmanager
async def console(running: GatewayProcess) -> AsyncIterator[Console]:
    """The console on the operators' listener."""
    async with plainhttp.async_client(base_url=running.admin_url, timeout=WAIT_S) as http:
        yield Console(http)
