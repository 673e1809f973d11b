"""Starts the programs of others, and the gateway, as processes of their own.

Each of the others runs on the interpreter of its environment under `.venvs/`. A missing environment fails a test
with the command that builds it: a skip would leave the promise untested and the run green.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
BUILT_BY = "make interop"
START_S = 30.0  # an import of the LangChain family takes 1 s alone, several on a busy machine
STOP_S = 10.0  # from SIGTERM to gone; nothing is in flight by then
DRIVE_S = 60.0  # a whole list of steps, the start of the interpreter included

Step = tuple[str, dict[str, Any]]
Outcome = dict[str, Any]


def interpreter(environment: str) -> str:
    """The Python of one environment; fails the test when it has not been built."""
    python = CHECKOUT / ".venvs" / environment / "bin" / "python"
    if not python.exists():
        pytest.fail(f"The environment .venvs/{environment} is missing; `{BUILT_BY}` builds it.", pytrace=False)
    return str(python)


def drive_oxp(base_url: str, token: str, *steps: Step) -> list[Outcome]:
    """Lets the official OXP client take the steps, one after the other."""
    return _drive("oxp", "drive_oxp.py", base_url, {"OXP_API_KEY": token}, steps)


def drive_utc(base_url: str, token: str, *steps: Step) -> list[Outcome]:
    """Lets universal-tool-client take the steps, one after the other."""
    return _drive("universal-tool-client", "drive_utc.py", base_url, {"TOOL_TOKEN": token}, steps)


def _drive(
    environment: str, script: str, base_url: str, variables: Mapping[str, str], steps: tuple[Step, ...]
) -> list[Outcome]:
    done = subprocess.run(
        [interpreter(environment), str(HERE / script), base_url],
        input=json.dumps(steps),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=DRIVE_S,
        check=False,
    )
    assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stderr}"
    outcomes: list[Outcome] = json.loads(done.stdout)
    return outcomes


@contextmanager
def tool_server() -> Iterator[str]:
    """Runs `uts_app.py`; yields its base URL."""
    command = [interpreter("universal-tool-server"), str(HERE / "uts_app.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            port = json.loads(process.stdout.readline())["port"]
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)


@contextmanager
def gateway(config: str, port: int, directory: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Runs `toolgate serve` with a configuration that listens on `port`; yields the base URL once it is ready."""
    file, log = directory / "gateway.yaml", directory / "gateway.log"
    file.write_text(config)
    base_url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "gateway", "serve", "-c", str(file)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=CHECKOUT, env={**os.environ, **variables}, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            _wait_until_ready(process, base_url, log)
            yield base_url
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], base_url: str, log: Path) -> None:
    give_up = time.monotonic() + START_S
    with plainhttp.client(base_url=base_url) as http:
        while time.monotonic() < give_up:
            assert process.poll() is None, f"the gateway ended with {process.returncode}:\n{log.read_text()}"
            try:
                if http.get("/health").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(0.05)
    raise AssertionError(f"the gateway was not ready after {START_S:g} s:\n{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def free_port() -> int:
    """A port nobody listens on. Somebody may take it before we do; then the gateway says so and the test fails."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
