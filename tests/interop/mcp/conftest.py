"""One gateway in front of tool servers of every protocol, among them MCP servers of others; callers need a token."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from gateway.demo.fleet import start_fleet
from tests.interop.conftest import SECRET
from tests.interop.mcp.programs import HERE, installed, node, tool_server
from tests.support import processes, terminal
from tests.support.ports import lasting_port

EVERYTHING = "mcp-server-everything"
CRUMBS = {
    "owner_id": "00000000-0000-0000-0000-000000000001",
    "agent_id": "00000000-0000-0000-0000-00000000d003",
    "toolkit": "Crumbs",
}


@pytest.fixture(scope="session")
async def every_protocol(anyio_backend: object, servers: dict[str, str]) -> AsyncIterator[str]:
    """The base URL of the gateway."""
    async with start_fleet() as fleet:
        backends = {
            "office": {"protocol": "otc", "url": fleet["otc"]},
            "builds": {"protocol": "callback", "url": fleet["rap"]},
            "crumbs": {"protocol": "rcrt", "url": fleet["rcrt"], **CRUMBS},
            **{name: {"protocol": "mcp", "url": url, "toolkit": name.title()} for name, url in servers.items()},
        }
        config = processes.settings(backends, auth={"jwt": [{"secret": SECRET}]})
        async with processes.gateway(config) as running:
            yield running.url


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, str]]:
    """Where the MCP servers of others are; the last two speak on standard input and output."""
    with (
        tool_server("servers.py", "mcp") as official,
        tool_server("servers.py", "fastmcp") as fast,
        everything() as legacy,
        bridged(node(EVERYTHING, "stdio")) as behind_bridge,
        bridged([installed("bin/python"), str(HERE / "servers.py"), "mcp", "stdio"], "--era", "modern") as piped,
    ):
        yield {
            "official": f"{official}/mcp",
            "fast": f"{fast}/mcp",
            "everything": legacy,
            "bridged": behind_bridge,
            "piped": piped,
        }


@contextmanager
def everything() -> Iterator[str]:
    """The server with everything, which is a legacy one, kept from other machines."""
    port = str(lasting_port())
    env = {"PORT": port, "NODE_OPTIONS": f"--require {HERE / 'loopback.cjs'}"}
    with terminal.running(node(EVERYTHING, "streamableHttp"), env) as program:
        program.wait_for("listening")
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def bridged(command: list[str], *options: str) -> Iterator[str]:
    with terminal.running([*terminal.TOOLGATE, "bridge", "--port", "0", *options, "--", *command]) as bridge:
        yield re.findall(r"http://\S+/mcp", bridge.wait_for("Serving "))[0]
