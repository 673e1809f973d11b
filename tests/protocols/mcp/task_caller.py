"""A caller that speaks modern MCP and takes tasks (extension io.modelcontextprotocol/tasks, 2026-07-28)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
EXTENSION = f"{PREFIX}tasks"
TASKS: dict[str, Any] = {"extensions": {EXTENSION: {}}}
NAMED_BY = {"tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
ENDED = ("completed", "failed", "cancelled")
LOOK_AGAIN_S = 0.02
WAIT_S = 30.0  # for a task, on a busy machine


def asked(method: str, params: dict[str, Any], capabilities: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a request."""
    meta = {f"{PREFIX}protocolVersion": VERSION, f"{PREFIX}clientCapabilities": capabilities}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
    }
    if method in NAMED_BY:
        headers["mcp-name"] = params[NAMED_BY[method]]
    meta |= params.get("_meta", {})
    return headers, json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": method, "params": params | {"_meta": meta}}
    ).encode()


@dataclass(frozen=True)
class TaskCaller:
    """`url` is that of a gateway; with one, any client will do."""

    http: httpx.AsyncClient
    capabilities: dict[str, Any] = field(default_factory=lambda: TASKS)
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""

    async def send(self, method: str, params: dict[str, Any], **headers: str) -> httpx.Response:
        more, body = asked(method, params, self.capabilities)
        every = more | self.headers | {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.http.post(f"{self.url}/mcp", content=body, headers=every)

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """What a request is answered with."""
        answer = await self.send(method, params)
        assert answer.status_code == httpx.codes.OK, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    async def error(self, method: str, **params: Any) -> tuple[int, dict[str, Any]]:
        """The status and the error that a request is refused with."""
        answer = await self.send(method, params)
        return answer.status_code, answer.json()["error"]

    async def call(self, name: str, arguments: Any = None, meta: Any = None) -> dict[str, Any]:
        return await self.result("tools/call", name=name, arguments=arguments or {}, _meta=meta or {})

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.result("tasks/get", taskId=task_id)

    async def ended(self, task_id: str) -> dict[str, Any]:
        """A task once it is over."""
        async with asyncio.timeout(WAIT_S):
            while (task := await self.get(task_id))["status"] not in ENDED:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(LOOK_AGAIN_S)
        return task
