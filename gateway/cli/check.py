"""`toolgate check`: reports every problem of a configuration, and with `--live` of what is behind it."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.cli import configuration
from gateway.cli.configuration import warnings
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

DESCRIPTION = "Says everything that is wrong with a configuration. Exit code: 0 good, 1 something is down, 2 bad."

LONG_DESCRIPTION = 1024  # characters; the tool interfaces of common models cut off there
MAX_NAMED = 20  # tools in one line, or lines of one kind about one backend


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, nargs="?", default=configuration.DEFAULT, metavar="FILE")
    parser.add_argument("--live", action="store_true", help="reach Redis and every tool server, and show the catalogue")
    parser.add_argument("--allow-missing-env", action="store_true", help="let ${env:...} and ${file:...} be absent")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(arguments: argparse.Namespace) -> int:
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


def _hint(path: Path) -> list[str]:
    """Suggests `--allow-missing-env` if nothing else is wrong."""
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
    say("", f"{count(len(remarks), 'problem')}:" if remarks else "no problems")
    say(*(f"  {remark.text}" for remark in remarks))


def _row(name: str, backend: JsonObject, problems: int) -> tuple[str, ...]:
    """One backend's line."""
    latency = "-" if backend["latency_ms"] is None else f"{backend['latency_ms']:.0f} ms"
    state = "up" if backend["up"] else "DOWN"
    return name, backend["protocol"], backend["dialect"], state, str(backend["tools"]), latency, str(problems or "-")


class Remark(NamedTuple):
    """A problem for an operator to look at; `kind` is a word for programs, `backend` the one it is about, if any."""

    kind: str
    backend: str | None
    text: str


def remarks_on(found: JsonObject) -> Iterator[Remark]:
    """All problems, the gravest first."""
    state, backends = found["state"], found["backends"].items()
    if not state["up"]:
        yield Remark("state_down", None, f"state is down: {state['cause']}")
    for name, backend in backends:
        if not backend["up"]:
            yield Remark("backend_down", name, f"{name} is down: {backend['cause']}")
    for name, backend in backends:
        yield from _rejected(name, backend["rejected"])
    for name, backend in backends:
        if unrouted := backend["unrouted"]:
            text = f"{name}: no route publishes {count(len(unrouted), 'tool')}: {_named(unrouted)}"
            yield Remark("unrouted", name, text)
    yield from _unused(found["routes"])
    yield from _descriptions(found["tools"])
    for tool in found["tools"]:
        if reason := tool["unchecked_output"]:
            text = f"{tool['backend']}: values of {tool['id']} cannot be checked: {reason}"
            yield Remark("output_unchecked", tool["backend"], text)


def _rejected(name: str, rejected: Sequence[JsonObject]) -> Iterator[Remark]:
    for one in rejected[:MAX_NAMED]:
        what = "" if one["id"] == name else f"{one['id']} is not published: "  # else it is about all of them
        yield Remark("not_published", name, f"{name}: {what}{one['reason']}")
    if len(rejected) > MAX_NAMED:
        text = f"{name}: {count(len(rejected) - MAX_NAMED, 'more tool')} not published; --json has all of them"
        yield Remark("not_published", name, text)


def _unused(routes: Sequence[JsonObject]) -> Iterator[Remark]:
    """Routes that no tool takes: their glob has a typing error, or an earlier one leaves them nothing."""
    for route in routes:
        if route["takes"] != 0:
            continue
        why = "earlier routes take all that it fits" if route["fits"] else "it fits no tool"
        does = "hides" if route["deny"] else "publishes"
        text = f"{route['backend']}: route {route['number']} ({route['tools']}) {does} nothing: {why}"
        yield Remark("route_unused", route["backend"], text)


def _descriptions(tools: Sequence[JsonObject]) -> Iterator[Remark]:
    """Tools without a description, or with one that models see only the beginning of."""
    missing, long = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for tool in tools:
        if not tool["description"].strip():
            missing[tool["backend"]].append(tool["id"])
        elif len(tool["description"]) > LONG_DESCRIPTION:
            long[tool["backend"]].append(tool["id"])
    for name, ids in missing.items():
        text = (
            f"{name}: {count(len(ids), 'tool')} without a description, so that no model knows what for: {_named(ids)}"
        )
        yield Remark("description_missing", name, text)
    for name, ids in long.items():
        text = f"{name}: {count(len(ids), 'description')} of more than {LONG_DESCRIPTION} characters, "
        yield Remark("description_long", name, f"{text}of which many models see the beginning only: {_named(ids)}")


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:MAX_NAMED]) + (", ..." if len(ids) > MAX_NAMED else "")
