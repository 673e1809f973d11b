"""`toolgate check`: says everything that is wrong with a configuration, and with `--live` with the fleet behind it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.cli import configuration
from gateway.cli.command import Command
from gateway.cli.lint import warnings
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
from gateway.cli.remarks import Remark, remarks_on
from gateway.errors import ConfigError
from gateway.logs import output
from gateway.model import JsonObject
from gateway.server import main_loop
from gateway.settings import Config


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
    found["warnings"] = list(warnings(config))
    if arguments.live:
        output.configure("error", "text")  # what warnings have to say is in the report
        from gateway.cli.inspection import inspect  # with all of the gateway, for which a mere check would wait

        found |= main_loop(inspect(config))
        found["warnings"] += [f"state: {warning}" for warning in found["state"]["warnings"]]
        found["remarks"] = [{"kind": it.kind, "backend": it.backend, "text": it.text} for it in remarks_on(found)]
    if arguments.json:
        print_json(found)
    else:
        _report(config, found, live=arguments.live)
    asked = [*found.get("backends", {}).values(), *([found["state"]] if arguments.live else [])]
    return OK if all(one["up"] for one in asked) else FAILED


COMMAND = Command(
    name="check",
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


def _report(config: Config, found: JsonObject, *, live: bool) -> None:
    backends, routes = len(config.backends), len(config.routes)
    say(f"{found['file']}: good ({count(backends, 'backend')}, {count(routes, 'route')})")
    complain(*(f"warning: {warning}" for warning in found["warnings"]))
    if not live:
        return
    remarks = list(remarks_on(found))
    state, width = found["state"], terminal_width()
    say(f"state: {state['kept_in']}" + (f" ({state['version']})" if state["version"] else ""))
    about = Counter(remark.backend for remark in remarks)
    rows = [_row(name, backend, about[name]) for name, backend in found["backends"].items()]
    if rows:
        say("", *table(("BACKEND", "PROTOCOL", "DIALECT", "STATE", "TOOLS", "LATENCY", "PROBLEMS"), rows))
    tools = [
        (tool["id"], tool["backend"], " ".join(tool["scopes"]) or "-", first_line(tool["description"]) or "-")
        for tool in found["tools"]
    ]
    if tools:
        say("", *table(("TOOL", "BACKEND", "SCOPES", "DESCRIPTION"), tools, width))
    say("", *_problems(remarks))


def _row(name: str, backend: JsonObject, problems: int) -> tuple[str, ...]:
    """One backend's line."""
    latency = "-" if backend["latency_ms"] is None else f"{backend['latency_ms']:.0f} ms"
    state = "up" if backend["up"] else "DOWN"
    return name, backend["protocol"], backend["dialect"], state, str(backend["tools"]), latency, str(problems or "-")


def _problems(remarks: Sequence[Remark]) -> Iterator[str]:
    """One line each, the gravest first."""
    yield f"{count(len(remarks), 'problem')}:" if remarks else "no problems"
    for remark in remarks:
        yield f"  {remark.text}"
