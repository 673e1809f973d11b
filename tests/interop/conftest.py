"""One real tool server and one gateway in front of it, for all tests here; they change nothing the others rely on."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator

import jwt
import pytest

from tests.interop.programs import HERE, interpreter
from tests.support import processes, terminal

SECRET = "interop-secret-of-at-least-32-bytes"


@pytest.fixture(scope="session")
def tool_server() -> Iterator[str]:
    """The base URL of a real universal-tool-server."""
    with terminal.running([interpreter("universal-tool-server"), str(HERE / "uts_app.py")]) as program:
        yield f"http://127.0.0.1:{json.loads(program.wait_for('port'))['port']}"


@pytest.fixture(scope="session")
async def gateway(anyio_backend: object, tool_server: str) -> AsyncIterator[str]:
    """The base URL of a gateway whose one backend is the real tool server; callers need a token."""
    # It answers 500 whenever a tool raises, which is no reason to refuse it calls.
    sums = {"protocol": "otc", "url": tool_server, "toolkit": "Sums", "breaker": {"failures": 0}}
    config = processes.settings({"sums": sums}, auth={"jwt": [{"secret": SECRET}]})
    async with processes.gateway(config) as running:
        yield running.url


@pytest.fixture(scope="session")
def token() -> str:
    """A credential the gateway accepts."""
    return jwt.encode({"sub": "interop", "exp": int(time.time()) + 600}, SECRET, "HS256")
