"""`toolgate bridge`: serves an MCP server that speaks over standard input and output as streamable HTTP."""

from __future__ import annotations

import argparse
import logging
import sys

from gateway.bridge.handshake import Ready
from gateway.bridge.program import StartError
from gateway.bridge.run import PATH, is_loopback, run_bridge
from gateway.cli.output import FAILED, OK, PROGRAM, USAGE, CommandError, put
from gateway.cli.serve import address, run_until_stopped
from gateway.logs import output

DESCRIPTION = (
    "Starts COMMAND, an MCP server that uses standard input and output, and serves it as streamable HTTP until Ctrl-C. "
    "All callers of an era share one process. They are not authenticated, so only this machine may call."
)
RUNS_ANOTHER = True  # what stands after -- is a command

USUAL_PORT = 9110

log = logging.getLogger("gateway.bridge")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [--host HOST] [--port PORT] [--era ERA] -- COMMAND ..."
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    help_port = "the port (default: %(default)s); 0: any free one"
    parser.add_argument("--port", type=_port, default=USUAL_PORT, metavar="PORT", help=help_port)
    help_era = (
        "the only revisions to serve: those that begin with initialize (legacy) or not (modern); auto: all it speaks"
    )
    parser.add_argument("--era", choices=("auto", "legacy", "modern"), default="auto", help=help_era)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    command: list[str] = arguments.command
    if not command:
        raise CommandError(
            USAGE, "Write the command of the server after --, for example:", f"  {PROGRAM} bridge -- mcp-server-time"
        )
    output.configure("info", "text" if sys.stderr.isatty() else "json")
    logging.getLogger("gateway.server").setLevel(logging.WARNING)
    era = None if arguments.era == "auto" else arguments.era
    if not is_loopback(arguments.host):
        log.warning("other machines may call, and callers are not authenticated", extra={"host": arguments.host})
    try:
        run_until_stopped(run_bridge(command, era, arguments.host, arguments.port, _announce))
    except StartError as exc:
        raise CommandError(FAILED, str(exc)) from exc
    return OK


def _announce(host: str, port: int, ready: Ready) -> None:
    url = f"http://{address(host, port)}{PATH}"
    put(f"Serving {url} (MCP {ready.version}). In the configuration of a gateway:")
    put(f'  {{protocol: mcp, url: "{url}", toolkit: ...}}')
