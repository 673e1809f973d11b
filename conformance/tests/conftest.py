"""What the tests of the kit have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.interop.programs import HERE, interpreter
from tests.support import terminal


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def tool_server() -> Iterator[str]:
    """The base URL of a real universal-tool-server."""
    with terminal.running([interpreter("universal-tool-server"), str(HERE / "uts_app.py")]) as program:
        yield f"http://127.0.0.1:{json.loads(program.wait_for('port'))['port']}"
