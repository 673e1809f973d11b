"""`toolgate check`: reports every problem of a configuration, and with `--live` of what is behind it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.cli import configuration
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
from gateway.cli.remarks import named, remarks_on
from gateway.core.errors import ConfigError
from gateway.core.model import JsonObject
from gateway.logs import output
from gateway.net.server import main_loop
from gateway.settings import Config
from gateway.settings.warnings import warnings

DESCRIPTION = (
    "Reports everything that is wrong with a configuration. "
    "Exit code: 0 good, 1 something is down or has a problem, 2 bad."
)

FEW = 20  # tools, of which anybody sees which are the largest
MAX_LARGEST = 10  # tools that are named as the largest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the same as -c FILE")
    configuration.add_option(parser)
    parser.add_argument(
        "--live",
        action="store_true",
        help="connect to Redis, the authorization service, issuers and every tool server, and list the tools",
    )
    parser.add_argument(
        "--operations",
        action="store_true",
        help="print the operations of each HTTP API, as lines to choose tools with (implies --live)",
    )
    parser.add_argument(
        "--allow-missing-env",
        action="store_true",
        help="accept missing variables and files in ${env:...} and ${file:...}",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 2 if there is any warning or problem")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file or arguments.config
    found: JsonObject = {"file": str(path), "problems": [], "warnings": []}
    try:
        config, plain_secrets = configuration.load_with_warnings(path, allow_missing_env=arguments.allow_missing_env)
    except ConfigError as exc:
        if arguments.json:
            print_json(found | {"problems": list(exc.problems)})
            return USAGE
        hint = [] if arguments.allow_missing_env else _hint(path)
        raise CommandError(USAGE, *exc.problems, *hint) from exc
    found["warnings"] = [*warnings(config), *plain_secrets]
    if arguments.live or arguments.operations:
        output.configure("error", "text")  # what warnings have to say is in the report
        from gateway.cli.inspection import inspect  # with all of the gateway, for which a mere check would wait

        found |= main_loop(inspect(config))
        found["warnings"] += [f"state: {warning}" for warning in found["state"]["warnings"]]
        found["remarks"] = [{"kind": it.kind, "backend": it.backend, "text": it.text} for it in remarks_on(found)]
    if arguments.json:
        print_json(found)
    elif arguments.operations:
        _print_choices(found["backends"])
    else:
        _report(config, found, live=arguments.live)
    if arguments.strict and (found["warnings"] or found.get("remarks")):
        return USAGE
    return FAILED if _has_failed(found, live=arguments.live) else OK


def _has_failed(found: JsonObject, *, live: bool) -> bool:
    """Whether something is down, or `--live` has found a problem; who only chooses operations knows of those."""
    asked = [
        found.get("state"),
        found.get("authorization"),
        found.get("telemetry"),
        *found.get("issuers", {}).values(),
        *found.get("backends", {}).values(),
    ]
    return not all(one is None or one["up"] for one in asked) or (live and bool(found["remarks"]))


def _hint(path: Path) -> list[str]:
    """Suggests `--allow-missing-env` if nothing else is wrong."""
    try:
        configuration.load(path, allow_missing_env=True)
    except ConfigError:
        return []
    return ["If these are missing on purpose, use --allow-missing-env."]


def _report(config: Config, found: JsonObject, *, live: bool) -> None:
    backends, routes = len(config.backends), len(config.routes)
    say(f"{found['file']}: good ({count(backends, 'backend')}, {count(routes, 'route')})")
    complain(*(f"warning: {warning}" for warning in found["warnings"]))
    if not live:
        return
    remarks = list(remarks_on(found))
    state, width = found["state"], terminal_width()
    say(f"state: {state['kept_in']}" + (f" ({state['version']})" if state["version"] else ""))
    if (service := found["authorization"]) is not None:
        decides = "allows" if service["allowed"] else "denies"
        about_it = f"{decides} a call that nobody makes, {service['latency_ms']:.0f} ms" if service["up"] else "DOWN"
        say(f"authorization: {service['service']} ({about_it})")
    for name, issuer in found["issuers"].items():
        say(f"issuer: {name} ({count(issuer['keys'], 'key')})" if issuer["up"] else f"issuer: {name} (DOWN)")
    if (collector := found["telemetry"]) is not None:
        say(f"telemetry: {collector['url']}" + ("" if collector["up"] else " (DOWN)"))
    about = Counter(remark.backend for remark in remarks)
    rows = [_row(name, backend, about[name]) for name, backend in found["backends"].items()]
    if rows:
        say("", *table(("BACKEND", "PROTOCOL", "DIALECT", "STATE", "TOOLS", "LATENCY", "PROBLEMS"), rows))
    _print_tools(found["tools"], width)
    for name, backend in found["backends"].items():
        if lines := list(_about(backend["report"] or {})):
            say("", f"{name}:", *lines)
    none = "no further problems" if found["warnings"] else "no problems"
    say("", f"{count(len(remarks), 'problem')}:" if remarks else none)
    say(*(f"  {remark.text}" for remark in remarks))


def _print_tools(tools: Sequence[JsonObject], width: int | None) -> None:
    """All tools, and how much of a model's context they take."""
    rows = [
        (
            tool["id"],
            tool["backend"],
            " ".join(tool["scopes"]) or "-",
            str(tool["tokens"]),
            first_line(tool["description"]) or "-",
        )
        for tool in tools
    ]
    if not rows:
        return
    say("", *table(("TOOL", "BACKEND", "SCOPES", "TOKENS", "DESCRIPTION"), rows, width))
    say("", f"{count(len(tools), 'tool')}, about {count(sum(tool['tokens'] for tool in tools), 'token')} for a model")
    if len(tools) > FEW:
        largest = sorted(tools, key=lambda tool: -tool["tokens"])[:MAX_LARGEST]
        say("the largest: " + ", ".join(f"{tool['id']} {tool['tokens']}" for tool in largest))


def _about(report: JsonObject) -> Iterator[str]:
    """What a backend says about its list besides tools."""
    facts = report.get("facts", ())
    widest = max((len(label) for label, _ in facts), default=0)
    yield from (f"  {label.ljust(widest)}  {text}" for label, text in facts)
    for group in report.get("left_out", ()):
        yield f"  left out {len(group['ids'])}: {group['text']} {named(group['ids'])}"


def _print_choices(backends: JsonObject) -> None:
    """Lists for the key `include` of each backend that has something to choose from."""
    for name, backend in backends.items():
        choices = (backend["report"] or {}).get("choices", ())
        if choices:
            say(f"# backends.{name}.operations", "include:", *(f"  {line}" for line in choices))
        elif backend["cause"]:
            complain(f"{name} is down: {backend['cause']}")


def _row(name: str, backend: JsonObject, problems: int) -> tuple[str, ...]:
    """One backend's line."""
    latency = "-" if backend["latency_ms"] is None else f"{backend['latency_ms']:.0f} ms"
    state = "up" if backend["up"] else "DOWN"
    return name, backend["protocol"], backend["dialect"], state, str(backend["tools"]), latency, str(problems or "-")
