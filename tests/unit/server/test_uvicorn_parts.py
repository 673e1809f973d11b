"""What is taken from uvicorn without being documented there is still what the server takes it for."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gateway.server import uvicorn_parts
from gateway.server.uvicorn_parts import STATUS_LINE, FlowControl, get_local_addr, get_remote_addr

PACKAGE = Path(uvicorn_parts.__file__).parents[1]


class Recorder(asyncio.Transport):
    """A transport that remembers whether it reads."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.2", 2)})
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def test_no_other_module_of_the_server_imports_uvicorn() -> None:
    importing = {path.name for path in (PACKAGE / "server").glob("*.py") if "import uvicorn" in path.read_text()}
    importing |= {path.name for path in (PACKAGE / "server").glob("*.py") if "from uvicorn" in path.read_text()}
    assert importing == {"uvicorn_parts.py"}


@pytest.mark.anyio
async def test_flow_control_pauses_once_and_lets_writers_wait() -> None:
    transport = Recorder()
    flow = FlowControl(transport)
    assert (flow.read_paused, flow.write_paused) == (False, False)
    flow.pause_reading()
    flow.pause_reading()
    flow.resume_reading()
    flow.resume_reading()
    assert transport.calls == ["pause", "resume"]
    flow.pause_writing()
    assert flow.write_paused
    waiting = asyncio.create_task(flow.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    flow.resume_writing()
    await waiting


def test_status_lines_are_those_of_http() -> None:
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert STATUS_LINE[499] == b"HTTP/1.1 499 \r\n"


def test_addresses_are_those_of_a_scope() -> None:
    transport = Recorder()
    assert (get_local_addr(transport), get_remote_addr(transport)) == (("127.0.0.1", 1), ("127.0.0.2", 2))


def test_the_server_of_uvicorn_still_cannot_keep_our_promises() -> None:
    """If this fails, read the docstring of `uvicorn_parts` again: uvicorn may be able to run our protocol by now."""

    def source(method: Any) -> str:
        return inspect.getsource(method)

    server = uvicorn.Server
    assert "ssl_handshake_timeout" not in source(server.startup)
    assert "ssl_shutdown_timeout" not in source(server.startup)
    shutdown = source(server.shutdown)
    assert shutdown.index("server.close()") < shutdown.index("connection.shutdown()")
    assert "abort" not in shutdown
    assert "raise_signal" in source(server.capture_signals)
    assert "capture_signals" in source(server.serve)
