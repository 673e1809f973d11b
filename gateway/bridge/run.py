"""Runs the bridge: its listener and what is behind it, until a signal ends both."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

from gateway.bridge.endpoint import BridgeEndpoint
from gateway.bridge.eras import Eras
from gateway.bridge.handshake import Era, Ready
from gateway.net.server import Listener, ServerOptions, Service, Stop, listen, serve

PATH = "/mcp"
GRACE_S = 5.0  # for requests under way when it is stopped
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener there."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


async def run_bridge(
    command: Sequence[str], era: Era | None, host: str, port: int, on_ready: Callable[[str, int, Ready], None]
) -> None:
    """Serves the command until a signal; calls `on_ready` once it may be asked.

    Raises:
        ServerError: it cannot listen where it should.
        StartError: the command cannot be started.
    """
    eras = Eras(command, era)
    hosts = LOCAL_NAMES | {host} if is_loopback(host) else None
    endpoint = BridgeEndpoint(PATH, eras, hosts)
    options = ServerOptions(
        host=host,
        port=port,
        admin_host=host,
        admin_port=0,
        max_head_bytes=16 * 1024,
        max_connections=1000,
        head_timeout_s=10.0,
        body_timeout_s=30.0,
        idle_timeout_s=75.0,
        shutdown_grace_s=GRACE_S,
    )

    def drain() -> None:
        endpoint.stop()
        eras.cancel_listening()

    listener, service = Listener(options), Service(app=endpoint, on_drain=drain)
    with closing(await listen(listener, service)) as acceptor:
        keeping, readying = asyncio.create_task(eras.run()), asyncio.create_task(eras.wait_ready())
        try:
            await asyncio.wait([keeping, readying], return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                return await keeping  # which raises
            on_ready(*acceptor.address, readying.result())
            stop = Stop()
            with stop.on_signals():
                await serve(listener, service, acceptor, stop)
        finally:
            for task in (keeping, readying):
                task.cancel()
            await asyncio.gather(keeping, readying, return_exceptions=True)
    return None
