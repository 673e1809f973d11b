"""`toolgate-conformance`: judges tool servers and clients of others by the checks of their protocol."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolgate_conformance.callbacks import Address
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import Check, Outcome, Report, Status
from toolgate_conformance.http import answers
from toolgate_conformance.output import (
    FAILED,
    OK,
    PROGRAM,
    UNREACHABLE,
    USAGE,
    CommandError,
    complain,
    print_json,
    put,
    say,
)
from toolgate_conformance.protocols import CLIENTS, SERVERS, ServerOptions, all_checks
from toolgate_conformance.reports import as_json, as_junit, as_markdown, explained, for_people
from toolgate_conformance.running import LIMIT_S, chosen
from toolgate_conformance.running import run as run_checks
from toolgate_conformance.servers.rap.invocation import is_url

DESCRIPTION = (
    "Judges a tool server (server URL) or a client (client -- COMMAND) by the checks of its protocol, explains a check "
    "(explain ID), or lists all of them (list). Exit code: 0 it conforms, 1 a MUST has failed, 2 wrong words, "
    "3 no answer."
)
KINDS = ("server", "client", "explain", "list")
FORMATS = ("text", "json", "junit", "markdown")
TOKEN = "CONFORMANCE_TOKEN"  # noqa: S105 - the name of a variable; that of callers is for their own gateway
MCP = "mcp"
CONSENT_S = 120.0
# Options that have an effect on some subjects only, each with its value where it is not given.
OF_SERVERS: Mapping[str, Any] = {"call": [], "context": {}, "token": None}
OF_RCRT: Mapping[str, Any] = {"owner_id": None, "agent_id": None}
OF_RAP: Mapping[str, Any] = {
    "callback_host": "127.0.0.1",
    "callback_port": 0,
    "callback_url": None,
    "consent": False,
}
OF_REPORTS: Mapping[str, Any] = {"baseline": None, "format": "text", "verbose": False}
ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - listened on only if the operator says so
NODE = 22  # the first that the suite runs on
MCP_SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what to do")
    parser.add_argument("subject", nargs="?", metavar="URL|ID", help="of the tool server, or of the check")
    parser.add_argument("--protocol", choices=(*SERVERS, MCP), help="what the tool server or the client speaks")
    parser.add_argument(
        "--call",
        nargs=2,
        action="append",
        default=[],
        metavar=("TOOL", "JSON"),
        help="a tool that may run, and its input; without one no tool runs. May be repeated",
    )
    parser.add_argument("--context", type=_object, default={}, metavar="JSON", help="the context of these calls")
    parser.add_argument("--token", metavar="TOKEN", help=f"a bearer token; better in {TOKEN}")
    parser.add_argument("--owner-id", metavar="ID", help="of RCRT: for whom a token is asked")
    parser.add_argument("--agent-id", metavar="ID", help="of RCRT: as which agent")
    parser.add_argument(
        "--callback-host", default="127.0.0.1", metavar="HOST", help="of RAP: listen there for callbacks"
    )
    parser.add_argument("--callback-port", type=int, default=0, metavar="PORT", help="of RAP: the same (default: any)")
    parser.add_argument("--callback-url", metavar="URL", help="of RAP: where tool servers reach that address")
    parser.add_argument(
        "--consent", action="store_true", help=f"of RAP: you consent when asked, within {CONSENT_S:g} s"
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="checks by id or level: OXP-04?")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="a JSON report; what has failed there is known")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the report (default: %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="also print what passed and what was left out, and why")


def run(arguments: argparse.Namespace) -> int:
    match arguments.kind:
        case "list":
            for each in all_checks():
                say(f"{each.id:<9}  {each.level:<6}  {each.title}")
            return OK
        case "explain":
            return _explain(arguments.subject)
    if arguments.protocol is None:
        raise CommandError(USAGE, f"--protocol is missing: one of {', '.join((*SERVERS, MCP))}.")
    _refuse_idle(arguments)
    if arguments.protocol == MCP:
        return _run_suite_of_mcp(arguments)
    report = asyncio.run(_judge_client(arguments) if arguments.kind == "client" else _judge_server(arguments))
    if arguments.baseline is not None:
        report = report.without(_known(arguments.baseline))
    _print(report, arguments)
    return OK if report.is_good else FAILED


def _refuse_idle(arguments: argparse.Namespace) -> None:
    """Refuses an option that has no effect on what is judged. Raises CommandError."""
    is_server, protocol = arguments.kind == "server", arguments.protocol
    idle = {
        **({} if is_server and protocol != MCP else OF_SERVERS),
        **({} if is_server and protocol == "rcrt" else OF_RCRT),
        **({} if is_server and protocol == "rap" else OF_RAP),
        **({} if protocol != MCP else OF_REPORTS),
    }
    for name, unset in idle.items():
        if getattr(arguments, name) != unset:
            option = name.replace("_", "-")
            raise CommandError(USAGE, f"--{option} has no effect on {arguments.kind}s of {protocol}.")
    if is_server and arguments.command:
        raise CommandError(USAGE, "What stands after -- is a client; a tool server has a URL.")
    if not is_server and arguments.subject is not None:
        raise CommandError(USAGE, "A client has no URL; its command stands after --.")


def _explain(id_: str | None) -> int:
    """Raises CommandError."""
    if id_ is None:
        raise CommandError(USAGE, "The id of the check is missing, such as OXP-040.")
    for each in all_checks():
        if each.id == id_.upper():
            say(*explained(each))
            return OK
    raise CommandError(USAGE, f"There is no check {id_.upper()}. `{PROGRAM} list` prints all of them.")


def _object(text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return document


def _calls(arguments: argparse.Namespace) -> list[ToolCall]:
    """Raises CommandError."""
    try:
        return [ToolCall(tool, _object(text), arguments.context) for tool, text in arguments.call]
    except argparse.ArgumentTypeError as exc:
        raise CommandError(USAGE, f"The input of a --call {exc}.") from exc


def _headers(arguments: argparse.Namespace) -> Mapping[str, str]:
    token = arguments.token or os.environ.get(TOKEN)
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _callback_address(arguments: argparse.Namespace) -> Address:
    """Raises CommandError."""
    host, url = arguments.callback_host, arguments.callback_url
    if url is None and host in ANY_ADDRESS:
        raise CommandError(
            USAGE, f"A tool server cannot call back {host}: say with --callback-url where it reaches you."
        )
    if url is not None and not is_url(url):
        raise CommandError(USAGE, f"--callback-url has to be an http or https URL, not {url!r}.")
    return Address(host, arguments.callback_port, url)


def _chosen(checks: Sequence[Check], arguments: argparse.Namespace) -> list[Check]:
    """Raises CommandError."""
    found = chosen(checks, arguments.only)
    if not found:
        raise CommandError(USAGE, f"No check fits --only. `{PROGRAM} list` prints all of them.")
    return found


async def _judge_server(arguments: argparse.Namespace) -> Report:
    """Raises CommandError."""
    if arguments.subject is None:
        raise CommandError(USAGE, "The URL of the tool server is missing.")
    protocol, url = SERVERS[arguments.protocol], arguments.subject
    consent_s = CONSENT_S if arguments.consent else 0.0
    options = ServerOptions(
        url,
        _headers(arguments),
        _calls(arguments),
        arguments.owner_id,
        arguments.agent_id,
        callbacks=_callback_address(arguments),
        consent_s=consent_s,
        tell=complain,
    )
    checks = _chosen(protocol.checks(), arguments)
    if not await answers(url):
        raise CommandError(UNREACHABLE, f"Nothing answers at {url}.")
    try:
        async with protocol.open(options) as subject:
            # The first check of RAP that needs them makes all calls, one after the other.
            limit_s = (LIMIT_S + consent_s) * max(1, len(options.calls))
            return await run_checks(protocol.title, url, checks, subject, on_outcome=_told(), limit_s=limit_s)
    except (OSError, OverflowError) as exc:
        where = f"{arguments.callback_host}, port {arguments.callback_port}"
        raise CommandError(USAGE, f"Callbacks cannot be received at {where}: {exc}.") from exc


async def _judge_client(arguments: argparse.Namespace) -> Report:
    """Raises CommandError."""
    kind = CLIENTS[arguments.protocol]
    checks = _chosen(kind.checks(), arguments)
    try:
        async with kind.open(arguments.command) as subject:
            name = Path(arguments.command[0]).name
            return await run_checks(f"{kind.title} (clients)", name, checks, subject, on_outcome=_told())
    except ValueError as exc:
        raise CommandError(USAGE, f"{exc} Write the client after --, as in: client --protocol otc -- ./client") from exc


def _run_suite_of_mcp(arguments: argparse.Namespace) -> int:
    """MCP has an official suite, which is run if Node is there. Raises CommandError."""
    words = _words_for_suite(arguments)
    npx, node = shutil.which("npx"), shutil.which("node")
    if npx is None or node is None or _major(node) < NODE:
        raise CommandError(
            USAGE, f"The checks of MCP are the official suite, {MCP_SUITE}. It takes Node.js {NODE} or later."
        )
    complain(f"The checks of MCP are the official suite: npx {MCP_SUITE} {arguments.kind}.")
    done = subprocess.run([npx, "--yes", MCP_SUITE, *words], check=False)  # noqa: S603 - no shell
    return OK if done.returncode == 0 else FAILED


def _words_for_suite(arguments: argparse.Namespace) -> list[str]:
    """The arguments of the official suite; --only names one of its scenarios. Raises CommandError."""
    is_client = arguments.kind == "client"
    subject = ["--command", shlex.join(arguments.command)] if is_client else ["--url", arguments.subject]
    if not subject[1]:
        raise CommandError(USAGE, "The URL of the MCP server is missing, or the command of the client after --.")
    if len(arguments.only) > 1:
        raise CommandError(USAGE, "The official suite of MCP takes one --only, the name of a scenario.")
    every = ["--suite", "core"] if is_client else []  # for servers, the suite runs all scenarios without it
    chosen = ["--scenario", *arguments.only] if arguments.only else every
    return [arguments.kind, *subject, *chosen]


def _major(node: str) -> int:
    """The first number of a version such as `v24.1.0`; 0 if it is none."""
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - as above
    number = said.stdout.removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _told() -> Callable[[Outcome], None]:
    """Shows progress to people who wait at a terminal."""
    if not sys.stderr.isatty():
        return lambda outcome: None
    return lambda outcome: complain(f"{outcome.check.id} {outcome.status}")


def _known(file: Path) -> frozenset[str]:
    """The ids of the checks that a report says have failed. Raises CommandError."""
    try:
        found: Any = json.loads(file.read_bytes())
        return frozenset(each["id"] for each in found["checks"] if each["status"] == Status.FAILED)
    except OSError as exc:
        raise CommandError(USAGE, f"{file} cannot be read: {exc.strerror}.") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise CommandError(USAGE, f"{file} is no report in JSON; --format json makes one.") from exc


def _print(report: Report, arguments: argparse.Namespace) -> None:
    match arguments.format:
        case "json":
            print_json(as_json(report))
        case "junit":
            say(*as_junit(report).rstrip().split("\n"))
        case "markdown":
            say(*as_markdown(report).rstrip().split("\n"))
        case _:
            colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
            _say(list(for_people(report, colour=colour, verbose=arguments.verbose)), colour=colour)


def _say(lines: Sequence[str], *, colour: bool) -> None:
    """What came from a server may steer no terminal; our own colours may."""
    for line in lines:
        is_ours = colour and line.startswith("\x1b[")
        (put if is_ours else say)(line)
