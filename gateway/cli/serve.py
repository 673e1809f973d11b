"""`toolgate serve`: the gateway itself."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from gateway import __version__, logs
from gateway.app import Gateway
from gateway.cli import configuration
from gateway.cli.command import Command
from gateway.cli.output import FAILED, OK, CommandError
from gateway.server import Addresses, ServerError, ServerOptions, main_loop, run
from gateway.settings import Config

log = logging.getLogger("gateway.server")


def _run(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.config)
    logs.configure(config.logging.level, config.logging.format)
    run_until_stopped(_serve(config))
    log.info("stopped")
    return OK


COMMAND = Command(
    name="serve",
    summary="run the gateway",
    description="Runs the gateway until SIGTERM or Ctrl-C; calls under way are finished first.",
    add_arguments=configuration.add_option,
    run=_run,
)


def run_until_stopped(serving: Coroutine[Any, Any, None]) -> None:
    """Runs what serves until a signal ends it. Raises CommandError when it cannot listen."""
    try:
        main_loop(_stoppable(serving))
    except (asyncio.CancelledError, KeyboardInterrupt):
        pass  # stopped before it listened, or told twice
    except ServerError as exc:
        raise CommandError(FAILED, f"{exc} Stop what is there, or choose another host and port.") from exc


async def _stoppable(serving: Coroutine[Any, Any, None]) -> None:
    """Lets SIGTERM end what still starts, as SIGINT does; the server takes both over once it listens."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await serving


async def _serve(config: Config) -> None:
    gateway = Gateway(config)
    await gateway.start()
    try:
        await serve_gateway(gateway, config, lambda addresses: log.info("listening", extra=_told(addresses)))
    finally:
        await gateway.aclose()


def _told(addresses: Addresses) -> dict[str, str]:
    return {"public": address(*addresses.public), "admin": address(*addresses.admin), "version": __version__}


def address(host: str, port: int) -> str:
    """Where a listener is, as URLs write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve_gateway(gateway: Gateway, config: Config, on_ready: Callable[[Addresses], None]) -> None:
    """Listens for a started gateway until a signal ends it; `on_ready` is told where. Raises ServerError."""

    def listening(addresses: Addresses) -> None:
        gateway.listens_on(*addresses.public)
        on_ready(addresses)

    await run(gateway.public, gateway.admin, _options(config), on_ready=listening, on_drain=gateway.drain)


def _options(config: Config) -> ServerOptions:
    server = config.server
    return ServerOptions(
        host=server.host,
        port=server.port,
        admin_host=server.admin.host,
        admin_port=server.admin.port,
        max_head_bytes=server.max_head_bytes,
        max_connections=server.max_connections,
        head_timeout_s=server.head_timeout_s,
        body_timeout_s=server.body_timeout_s,
        idle_timeout_s=server.idle_timeout_s,
        shutdown_grace_s=server.shutdown_grace_s,
    )
