"""`toolgate serve`: the gateway itself."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gateway import __version__
from gateway.cli import configuration
from gateway.cli.output import FAILED, OK, CommandError
from gateway.logs import output
from gateway.net.server import Addresses, ListenError, ServerError, main_loop
from gateway.processes.reload import Reloader
from gateway.processes.serving import Serving
from gateway.processes.supervisor import Supervisor
from gateway.settings import Config
from gateway.settings.warnings import dangers

DESCRIPTION = "Runs the gateway until SIGTERM or Ctrl-C; running calls may finish then. On SIGHUP it reads FILE again."

MAX_PORT = 65535

T = TypeVar("T")

log = logging.getLogger("gateway.server")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configuration.add_option(parser)
    for name, key in (("--port", "server.port"), ("--admin-port", "server.admin.port")):
        parser.add_argument(name, type=_port, metavar="N", help=f"in place of {key}; 0 chooses a free port")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MAX_PORT}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    ports = {"port": arguments.port, "admin_port": arguments.admin_port}
    code = run_until_stopped(_serve(arguments.config, partial(_with_ports, **ports)))
    log.info("stopped")
    return code or OK


def _with_ports(config: Config, *, port: int | None, admin_port: int | None) -> Config:
    """The configuration with the ports that the command line names."""
    server = config.server
    if port is not None:
        server = server.model_copy(update={"port": port})
    if admin_port is not None:
        server = server.model_copy(update={"admin": server.admin.model_copy(update={"port": admin_port})})
    return config.model_copy(update={"server": server})


def run_until_stopped(serving: Coroutine[Any, Any, T]) -> T | None:
    """Runs what serves until a signal ends it; None if that was before it listened.

    Raises CommandError when it cannot listen.
    """
    try:
        return main_loop(_stoppable(serving))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return None  # or the signal came twice
    except ListenError as exc:
        cure = "Choose another host." if exc.by_host else "Choose another port, or stop what is there."
        raise CommandError(FAILED, f"{exc} {cure}") from exc
    except ServerError as exc:
        raise CommandError(FAILED, str(exc)) from exc


async def _stoppable(serving: Coroutine[Any, Any, T]) -> T:
    """Lets SIGTERM end what still starts, as SIGINT does; the server takes both over once it listens."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await serving


async def _serve(path: Path, adapt: Callable[[Config], Config]) -> int:
    """Serves until a signal ends it. Returns an exit code."""
    configuration.require(path)
    reloader = Reloader(path, adapt=adapt)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request)
    config = reloader.read()
    reloader.use(config)
    serve = _supervise if config.server.workers > 1 else _serve_alone
    try:
        return FAILED if await serve(config, reloader, path) else OK
    except ListenError as exc:
        raise CommandError(FAILED, f"{exc} {_cure(exc, config)}") from exc


def _cure(error: ListenError, config: Config) -> str:
    """What to change so that the gateway can listen."""
    server = config.server
    if error.by_host:
        return f"Correct {'server.host' if error.host in server.hosts else 'server.admin.host'}."
    is_admin = error.port == server.admin.port
    key, flag = ("server.admin.port", "--admin-port") if is_admin else ("server.port", "--port")
    return f"Choose another {key}, or {flag}, or stop what is there."


async def _serve_alone(config: Config, reloader: Reloader, file: Path) -> bool:
    """Returns whether results that were accepted are lost."""
    serving = Serving(config, file=file)
    _warn(config)
    gateway = serving.gateway
    try:
        await gateway.start()
        async with _running(reloader.run(serving.apply, gateway.metrics.reload)):
            await serving.run(partial(_announce, config))
    finally:
        await gateway.aclose()
    return gateway.lost_results > 0


async def _supervise(config: Config, reloader: Reloader, file: Path) -> bool:
    """As `_serve_alone`."""
    output.configure(config.logging.level, config.logging.format)
    _warn(config)
    supervisor = Supervisor(config, file)
    async with _running(reloader.run(supervisor.apply, supervisor.metrics.reload)):
        await supervisor.run(partial(_announce, config))
    return supervisor.has_lost


def _warn(config: Config) -> None:
    for danger in dangers(config):
        log.warning(danger)


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does the work beside the block, and ends it with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _announce(config: Config, addresses: Addresses) -> None:
    server = config.server
    public, admin = _places(server.hosts, addresses.public), _places(server.admin.hosts, addresses.admin)
    log.info("listening", extra={"public": public, "admin": admin, "version": __version__})


def _places(hosts: Sequence[str], first: tuple[str, int]) -> str | list[str]:
    """Where a listener is: one address, or for several hosts a list; all have the port of the first."""
    return address(*first) if len(hosts) == 1 else [address(host, first[1]) for host in hosts]


def address(host: str, port: int) -> str:
    """Where a listener is, as URLs write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
