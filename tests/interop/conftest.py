"""One real tool server and one gateway in front of it, for all tests here; they change nothing the others rely on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import jwt
import pytest

from tests.interop import programs

SECRET = "interop-secret-of-at-least-32-bytes"
CONFIG = """
server:
  host: 127.0.0.1
  port: {port}
  admin: {{host: 127.0.0.1, port: {admin_port}}}
auth:
  jwt:
    - secret: ${{env:INTEROP_SECRET}}
backends:
  # It answers 500 whenever a tool raises, which is no reason to leave it alone.
  sums: {{protocol: otc, url: "{url}", toolkit: Sums, breaker: {{failures: 0}}}}
routes:
  - {{tools: "Sums.*", backend: sums}}
"""


@pytest.fixture(scope="session")
def tool_server() -> Iterator[str]:
    """The base URL of a real universal-tool-server."""
    with programs.tool_server() as url:
        yield url


@pytest.fixture(scope="session")
def gateway(tool_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a gateway whose one backend is the real tool server; callers need a token."""
    port, admin_port = programs.free_port(), programs.free_port()
    config = CONFIG.format(port=port, admin_port=admin_port, url=tool_server)
    directory = tmp_path_factory.mktemp("gateway")
    with programs.gateway(config, port, directory, {"INTEROP_SECRET": SECRET}) as url:
        yield url


@pytest.fixture(scope="session")
def token() -> str:
    """A credential the gateway accepts."""
    return jwt.encode({"sub": "interop", "exp": int(time.time()) + 600}, SECRET, "HS256")
