"""Changes the configuration of a gateway that runs, and waits until it has noticed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.support.processes import GatewayProcess, Settings, until

DONE = "the configuration was read again"
REFUSED = "the configuration is not used; the last good one stays in use"


def file_of(running: GatewayProcess) -> Path:
    """The configuration file it was started with."""
    return running.log.with_name("gateway.yaml")


def write(path: Path, text: str) -> None:
    """Puts another file in the place of one, as editors and deployments do."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    os.replace(fresh, path)


def copy(source: str, path: str) -> None:
    """Puts what is in one file into the place of another."""
    write(Path(path), Path(source).read_text())


async def change(running: GatewayProcess, config: Settings | str, *, expects: str = DONE) -> None:
    """Writes the file, sends SIGHUP and waits for what the log says to it."""
    before = len(running.logged(expects))
    write(file_of(running), config if isinstance(config, str) else json.dumps(config))
    running.process.send_signal(signal.SIGHUP)
    await until(lambda: len(running.logged(expects)) > before, expects)
