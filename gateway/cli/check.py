"""`toolgate check`: says everything that is wrong with a configuration, and with `--live` with the fleet behind it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from gateway.cli import configuration
from gateway.cli.command import Command
from gateway.cli.inspection import inspect, remarks_on
from gateway.cli.output import (
    FAILED,
    OK,
    USAGE,
    CommandError,
    complain,
    count,
    first_line,
    print_json,
    say,
    table,
    terminal_width,
)
from gateway.errors import ConfigError
from gateway.logs import output
from gateway.model import JsonObject
from gateway.server import main_loop
from gateway.settings import Config
from gateway.settings.server import EVERYWHERE


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, nargs="?", default=configuration.DEFAULT, metavar="FILE")
    parser.add_argument("--live", action="store_true", help="reach Redis and every tool server, and show the catalogue")
    parser.add_argument("--allow-missing-env", action="store_true", help="let ${env:...} and ${file:...} be absent")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _run(arguments: argparse.Namespace) -> int:
    found: JsonObject = {"file": str(arguments.config), "problems": [], "warnings": []}
    try:
        config = configuration.load(arguments.config, allow_missing_env=arguments.allow_missing_env)
    except ConfigError as exc:
        if arguments.json:
            print_json(found | {"problems": list(exc.problems)})
            return USAGE
        hint = [] if arguments.allow_missing_env else _hint(arguments.config)
        raise CommandError(USAGE, *exc.problems, *hint) from exc
    found["warnings"] = list(_warnings(config))
    if arguments.live:
        output.configure("error", "text")  # what warnings have to say is in the report
        found |= main_loop(inspect(config))
        found["warnings"] += [f"state: {warning}" for warning in found["state"]["warnings"]]
    if arguments.json:
        print_json(found)
    else:
        _report(config, found, live=arguments.live)
    asked = [*found.get("backends", {}).values(), *([found["state"]] if arguments.live else [])]
    return OK if all(one["up"] for one in asked) else FAILED


COMMAND = Command(
    name="check",
    summary="check a configuration, and with --live what is behind it",
    description="Says everything that is wrong with a configuration. Exit code: 0 good, 1 something is down, 2 bad.",
    add_arguments=_add_arguments,
    run=_run,
)


def _hint(path: Path) -> list[str]:
    """Tells of `--allow-missing-env` if that is all it takes."""
    try:
        configuration.load(path, allow_missing_env=True)
    except ConfigError:
        return []
    return ["Where these are absent on purpose: --allow-missing-env."]


def _warnings(config: Config) -> Iterator[str]:
    """What is allowed but rarely meant."""
    server = config.server
    if config.auth is None and server.host not in configuration.LOOPBACK:
        yield f"auth: none lets everybody call who can reach {server.host}"
    if server.public_url is None and server.host in EVERYWHERE:
        yield f"server.public_url is not set, and {server.host} in the links of challenges leads nowhere"
    if config.state is not None and config.state.url is not None and not config.state.keys:
        yield "state.keys is not set: nobody but this process can read what it keeps in Redis, nor it once restarted"
    routed = {route.backend for route in config.routes if not route.deny}
    for name in config.backends:
        if name not in routed:
            yield f"backends.{name}: no route publishes any of its tools"


def _report(config: Config, found: JsonObject, *, live: bool) -> None:
    backends, routes = len(config.backends), len(config.routes)
    say(f"{found['file']}: good ({count(backends, 'backend')}, {count(routes, 'route')})")
    complain(*(f"warning: {warning}" for warning in found["warnings"]))
    if not live:
        return
    state, width = found["state"], terminal_width()
    if state["version"]:
        say(f"state: {state['kept_in']} ({state['version']})")
    rows = [
        (name, backend["protocol"], backend["dialect"], "up" if backend["up"] else "DOWN", str(backend["tools"]))
        for name, backend in found["backends"].items()
    ]
    say("", *table(("BACKEND", "PROTOCOL", "DIALECT", "STATE", "TOOLS"), rows))
    tools = [
        (tool["id"], tool["backend"], " ".join(tool["scopes"]) or "-", first_line(tool["description"]))
        for tool in found["tools"]
    ]
    if tools:
        say("", *table(("TOOL", "BACKEND", "SCOPES", "DESCRIPTION"), tools, width))
    if remarks := list(remarks_on(found)):
        say("", *remarks)
