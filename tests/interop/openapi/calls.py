"""A gateway in front of APIs, and callers of it by OTC, OXP and MCP, to whom every outcome looks the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests import oracle, plainhttp
from tests.support import processes
from tests.support.processes import Settings

EVERYTHING = {"methods": ["all"], "max": 2000}
MCP_VERSION = "2025-11-25"
SURFACES = ("otc", "oxp", "mcp")


@dataclass(frozen=True)
class Outcome:
    """What became of a call: a value, or what the caller was told. `code` is what programs go by (Toolgate-Code).

    A refusal came before the tool ran; a failure may have come after. `blocks` are what callers of MCP got.
    """

    ok: bool
    value: Any = None
    message: str = ""
    code: str = ""
    can_retry: bool | None = None
    retry_after_ms: int | None = None
    refused: bool = False
    parameters: Mapping[str, str] | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()


class Caller:
    """A caller that looks at each answer with the oracle before anybody else sees it."""

    def __init__(self, http: httpx.Client, log: processes.GatewayProcess) -> None:
        self._http = http
        self.log = log

    def tools(self) -> dict[str, Any]:
        """The tools by their ids without versions."""
        reply = self._http.get("/oxp/tools")
        oracle.check("oxp", "list", reply.status_code, reply.headers, reply.content)
        return {tool["id"].partition("@")[0]: tool for tool in reply.json()["items"]}

    def call(self, tool: str, arguments: Mapping[str, Any], surface: str = "otc") -> Outcome:
        """Calls a tool by one of the surfaces."""
        return self._by_mcp(tool, arguments) if surface == "mcp" else self._by_rest(surface, tool, arguments)

    def _by_rest(self, dialect: str, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        request: Any = {"tool_id": tool, "input": arguments}
        body = {"request": request} if dialect == "otc" else request
        reply = self._http.post(f"/{dialect}/tools/call", json=body)
        oracle.check(dialect, "call", reply.status_code, reply.headers, reply.content)
        document, code = reply.json(), reply.headers.get("toolgate-code", "")
        if reply.status_code != 200:
            assert reply.status_code < 500, reply.text
            said = document.get("parameter_errors")
            return Outcome(False, message=document["message"], code=code, refused=True, parameters=said)
        result = document.get("result", document)
        if result["success"]:
            return Outcome(True, result.get("value"))
        error = result["error"]
        waits = error.get("retry_after_ms")
        return Outcome(False, None, error["message"], code, error.get("can_retry"), waits)

    def _by_mcp(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        params = {"name": tool.replace(".", "_"), "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MCP_VERSION}
        reply = self._http.post("/mcp", json=message, headers=headers)
        assert reply.status_code == 200, reply.text
        answer, code = reply.json(), reply.headers.get("toolgate-code", "")
        if "error" in answer:
            return Outcome(False, message=answer["error"]["message"], code=code, refused=True)
        result = answer["result"]
        blocks = tuple(result["content"])
        text = next((block["text"] for block in blocks if block["type"] == "text"), "")
        if result.get("isError"):
            return Outcome(False, message=text, code=code, blocks=blocks)
        return Outcome(True, result.get("structuredContent", text), blocks=blocks)


def backend(url: str, document: Path | str, **more: Any) -> Settings:
    """A backend with every operation of a document."""
    return {"protocol": "openapi", "url": url, "document": str(document), "operations": EVERYTHING, **more}


@asynccontextmanager
async def gateway(backends: Mapping[str, Settings], **more: Any) -> AsyncIterator[Caller]:
    """A gateway with these backends and no guard, which must not have had to log an error."""
    async with processes.gateway(processes.settings(backends, **more)) as running:
        with plainhttp.client(base_url=running.url) as http:
            yield Caller(http, running)
        assert "Traceback" not in running.log_text()
        assert not [line for line in running.log_text().splitlines() if '"level":"ERROR"' in line.replace(" ", "")]
