"""A real `universal-tool-server` (PyPI) with a few tools, on a port the system chooses.

Started by the interpreter of `.venvs/universal-tool-server`; prints `{"port": N}` as soon as connections are taken.
Its ids have no toolkit (`add@1.0.0`), its lists are bare arrays, and a tool that raises makes it answer 500 in text.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

import uvicorn
from langchain_core.tools import StructuredTool
from universal_tool_server import Server

server = Server()
failures = 0


@dataclass
class Address:
    street: str
    city: str


@dataclass
class Parcel:
    to: Address
    weight_kg: float


async def add(x: int, y: int) -> int:
    """Adds two numbers."""
    return x + y


async def add_with_note(x: int, y: int, note: str = "sum") -> dict[str, Any]:
    """Adds two numbers and says what the sum is."""
    return {note: x + y}


async def fail() -> str:
    """Always breaks."""
    global failures
    failures += 1
    raise RuntimeError("canary-in-the-traceback")


async def count_failures() -> int:
    """Says how often `fail` has run."""
    return failures


async def ship(parcel: Parcel) -> str:
    """Ships a parcel."""
    return f"{parcel.weight_kg} kg to {parcel.to.street}, {parcel.to.city}"


async def redeploy(tool_id: str, input_schema: dict[str, Any] | None = None) -> None:
    """Replaces the input schema of a tool, or without one withdraws it: a server that changed after it was listed."""
    if input_schema is None:
        del server.tool_handler.catalog[tool_id]
    else:
        server.tool_handler.catalog[tool_id]["input_schema"] = input_schema


for function in (add, fail, count_failures, ship, redeploy):
    server.add_tool(function)
server.add_tool(StructuredTool.from_function(coroutine=add_with_note, name="add"), version="2.0.0")
for name in ("withdrawn", "tightened"):  # what `redeploy` is tried on
    server.add_tool(StructuredTool.from_function(coroutine=add, name=name))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # asyncio sets this only on sockets made with their protocol spelled out; without it every answer waits 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
        uvicorn.Server(uvicorn.Config(server, log_level="critical")).run(sockets=[listening])
