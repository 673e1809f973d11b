"""Runs the demonstration tool servers as child processes, each on a free port of loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from gateway.demo.service import TOKEN_VARIABLE

SERVERS = {
    "otc": "gateway.demo.otc_server",
    "oxp": "gateway.demo.oxp_server",
    "rap": "gateway.demo.rap_server",
    "rcrt": "gateway.demo.rcrt_server",
    "mcp": "gateway.demo.mcp_server",
    "openapi": "gateway.demo.openapi_server",
}
READY_WAIT_S = 20.0  # to import and bind: well under a second each, unless the machine is very busy
STOP_WAIT_S = 5.0  # longer than the servers give the calls they still run


class FleetError(RuntimeError):
    """A demonstration tool server that did not start."""


@asynccontextmanager
async def start_fleet(*, token: str | None = None) -> AsyncIterator[Mapping[str, str]]:
    """Yields the URL of each server, by its key in `SERVERS`, once all of them listen; stops them at the end.

    With `token` they ask for that bearer token. Raises: FleetError.
    """
    processes: dict[str, Process] = {}
    try:
        for name, module in SERVERS.items():
            processes[name] = await _spawn(module, token)
        try:
            async with asyncio.timeout(READY_WAIT_S):
                urls = {name: await _ready_url(name, process) for name, process in processes.items()}
        except TimeoutError:
            raise FleetError(f"A demonstration server was not ready within {READY_WAIT_S:.0f} s.") from None
        yield urls
    finally:
        await asyncio.gather(*map(_stop, processes.values()))


async def _spawn(module: str, token: str | None) -> Process:
    """Starts a server that also ends with us: however we die, the system closes its standard input."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, "--port", "0", "--until-stdin-closes"),
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, TOKEN_VARIABLE: token or ""},
        start_new_session=True,  # a Ctrl-C in the terminal is ours alone: the gateway still needs its servers to drain
    )


async def _ready_url(name: str, process: Process) -> str:
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().strip()
    if not line.startswith("listening on "):
        raise FleetError(f"The demonstration server {name!r} ended before it was ready.")
    return line.removeprefix("listening on ")


async def _stop(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_WAIT_S):
            await process.communicate()  # also closes our ends of its pipes
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
