"""A few tools on the official Python server (`mcp`) or on FastMCP: `servers.py (mcp|fastmcp) [stdio]`.

Started by the interpreter of `.venvs/mcp`; speaks on standard input and output, or prints its port as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
runs: list[str] = []


class Person(BaseModel):
    name: str
    age: int


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def person(name: str) -> Person:
    """Describes a person."""
    return Person(name=name, age=42)


async def fail(why: str) -> str:
    """Always fails."""
    runs.append(why)
    raise ValueError(why)


async def count(why: str) -> int:
    """Says how often `fail` has run for that reason."""
    return runs.count(why)


def official() -> Any:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import CallToolResult, ImageContent, TextContent

    async def picture() -> Any:
        """Shows a pixel."""
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return CallToolResult(content=[TextContent(type="text", text="A pixel."), image])

    server = MCPServer("official", log_level="CRITICAL")
    add_all(server.add_tool, picture)
    return server


def fast() -> Any:
    from base64 import b64decode

    from fastmcp import FastMCP
    from fastmcp.tools import Tool
    from fastmcp.utilities.types import Image

    async def picture() -> Any:
        """Shows a pixel."""
        return ["A pixel.", Image(data=b64decode(PIXEL), format="png")]

    server = FastMCP("fast")
    add_all(lambda function: server.add_tool(Tool.from_function(function)), picture)
    return server


def add_all(add_tool: Callable[[Any], object], *own: Callable[..., Any]) -> None:
    for function in (add, person, fail, count, *own):
        add_tool(function)


if __name__ == "__main__":
    server = {"mcp": official, "fastmcp": fast}[sys.argv[1]]()
    if sys.argv[2:] == ["stdio"]:
        server.run("stdio")
        sys.exit()
    app = server.http_app() if sys.argv[1] == "fastmcp" else server.streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
