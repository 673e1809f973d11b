"""`toolgate demo`: real tool servers, the gateway in front of them, and curl lines to paste."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path

from gateway.cli.output import FAILED, OK, PROGRAM, CommandError, put
from gateway.cli.serve import address, run_until_stopped
from gateway.cli.token import mint
from gateway.demo.fleet import FleetError, start_fleet
from gateway.net.server import Addresses, ListenError
from gateway.processes.serving import Serving
from gateway.settings import Config
from gateway.settings.load import load

DESCRIPTION = "Runs demonstration tool servers behind a gateway until Ctrl-C, and prints curl lines to paste."

USUAL_PORT, USUAL_ADMIN_PORT = 8080, 9464
TOKEN_TTL_S = 12 * 3600  # a day at the keyboard
USER = "ada"  # as in introduction.txt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = f"the port (default: {USUAL_PORT}, or a free one if that is in use); 0: any free one"
    parser.add_argument("--port", type=_port, metavar="PORT", help=default)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    try:
        run_until_stopped(_demo(arguments.port))
    except FleetError as exc:
        raise CommandError(FAILED, str(exc)) from exc
    put("Stopped; nothing is left running.")
    return OK


@asynccontextmanager
async def _fleet() -> AsyncIterator[Mapping[str, str]]:
    """The fleet. A signal that comes while it starts is heeded once it runs: uvloop cannot cancel half a start."""
    async with AsyncExitStack() as stack:
        starting = asyncio.ensure_future(stack.enter_async_context(start_fleet()))
        try:
            yield await asyncio.shield(starting)
        finally:
            with suppress(FleetError):
                await starting


async def _demo(port: int | None) -> None:
    async with _fleet() as urls:
        try:
            await _serve(urls, *_usual_ports(port))
        except ListenError:  # what was free is not any more, as when two demonstrations start together
            await _serve(urls, port or 0, 0)


async def _serve(urls: Mapping[str, str], port: int, admin_port: int) -> None:
    """Runs the gateway until a signal ends it. Raises ListenError."""
    os.environ |= {f"DEMO_{name.upper()}_URL": url for name, url in urls.items()}
    os.environ |= {"DEMO_JWT_SECRET": secrets.token_hex(32), "DEMO_PORT": str(port), "DEMO_ADMIN_PORT": str(admin_port)}
    with as_file(files("gateway.demo") / "demo.yaml") as file:
        config = load(file)
        serving = Serving(config, file=file)
        gateway = serving.gateway
        await gateway.start()
        try:
            await gateway.catalogue.wait_ready()
            await serving.run(lambda addresses: _introduce(config, addresses))
        finally:
            await gateway.aclose()


def _usual_ports(port: int | None) -> tuple[int, int]:
    """Where to listen for callers and for operators; 0 is any free port."""
    if port is None:
        return _if_free(USUAL_PORT), _if_free(USUAL_ADMIN_PORT)
    return port, 0 if port in (0, USUAL_ADMIN_PORT) else _if_free(USUAL_ADMIN_PORT)


def _if_free(port: int) -> int:
    """The port if it is free, else 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _introduce(config: Config, addresses: Addresses) -> None:
    assert config.auth is not None  # demo.yaml has it
    token = mint(config.auth, USER, [], TOKEN_TTL_S)
    urls = (f"http://{address(*addresses.public)}", f"http://{address(*addresses.admin)}")
    put(introduction(*urls, token=token, command=_own_command()))


def _own_command() -> str:
    """What to type for this program in another terminal."""
    script = Path(sys.executable).with_name(PROGRAM)
    if shutil.which(PROGRAM) is not None:
        return PROGRAM
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m gateway"


def introduction(url: str, admin_url: str, *, token: str, command: str) -> str:
    """Everything the demonstration prints once it runs."""
    text = (files("gateway.demo") / "introduction.txt").read_text("utf-8").rstrip("\n")
    for place, word in {"@URL@": url, "@ADMIN@": admin_url, "@TOKEN@": token, "@COMMAND@": command}.items():
        text = text.replace(place, word)
    return text
