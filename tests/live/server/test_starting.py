"""What cannot start says why in one sentence; what can, says where it listens."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from gateway.net.server import Addresses, Listener, ServerError, ServerOptions, Service, most_connections, run
from gateway.net.server.run import connections_for
from tests.live.server.harness import OPTIONS, Application, admin_application, serving

pytestmark = pytest.mark.anyio


async def start(options: ServerOptions) -> None:
    def ready(addresses: Addresses) -> None:
        raise AssertionError("it listens")

    await run(Listener(options), Service(app=Application()), admin_application, on_ready=ready)


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = f"Cannot listen on 127.0.0.1:{port}: the port is in use."
        with pytest.raises(ServerError) as failure:
            await start(replace(OPTIONS, port=port))
        assert str(failure.value) == sentence
        with pytest.raises(ServerError) as failure:
            await start(replace(OPTIONS, admin_port=port))
        assert str(failure.value) == sentence


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (replace(OPTIONS, host="192.0.2.1"), "the address is not one of this machine"),
        (replace(OPTIONS, host="no such host"), "the host is not known"),
        (replace(OPTIONS, port=70000), "a port is at most 65535"),
    ],
)
async def test_an_impossible_address_is_named(options: ServerOptions, reason: str) -> None:
    with pytest.raises(ServerError, match=r"^Cannot listen on ") as failure:
        await start(options)
    assert str(failure.value).endswith(f": {reason}.")


def test_another_event_loop_is_refused() -> None:
    with pytest.raises(ServerError, match="uvloop"):
        asyncio.run(start(OPTIONS))


async def test_too_few_open_files_for_the_connections_are_warned_of_if_somebody_wants_so_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Application(), max_connections=most_connections(10**9)):
        assert "raise the limit of open files" in caplog.text
    caplog.clear()
    async with serving(Application(), max_connections=most_connections(None)):
        assert not caplog.records
    assert [connections_for(files) for files in (0, 256, 1024, 20064)] == [1, 96, 480, 10_000]
