"""Runs a Python client of others: `clients.py (mcp|fastmcp) MODE URL`, with the credential in TOOL_TOKEN.

Started by the interpreter of `.venvs/mcp`. Standard input is a JSON list of `[tool, arguments]`, standard output
`{"tools": [names], "outcomes": [...]}`, an outcome being a result of MCP or `{"error": code}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.exceptions import MCPError

HEADERS = {"Authorization": f"Bearer {os.environ['TOOL_TOKEN']}"}


@asynccontextmanager
async def official(mode: str, url: str) -> AsyncIterator[Any]:
    from mcp import Client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    async with (
        create_mcp_http_client(headers=HEADERS) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def fast(mode: str, url: str) -> AsyncIterator[Any]:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=HEADERS), mode=mode) as client:
        yield client


async def outcome(client: Any, kind: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        if kind == "fastmcp":
            result = await client.call_tool_mcp(tool, arguments)
        else:
            result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return {"error": error.error.code}
    whole: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return whole


async def main(kind: str, mode: str, url: str) -> None:
    async with {"mcp": official, "fastmcp": fast}[kind](mode, url) as client:
        listed = await client.list_tools()
        names = [tool.name for tool in (listed if kind == "fastmcp" else listed.tools)]
        outcomes = [await outcome(client, kind, *step) for step in json.load(sys.stdin)]
    json.dump({"tools": names, "outcomes": outcomes}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
