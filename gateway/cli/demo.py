"""`toolgate demo`: real tool servers, the gateway in front of them, and curl lines to paste."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from gateway.cli.output import FAILED, OK, PROGRAM, CommandError, put
from gateway.cli.serve import address, run_until_stopped
from gateway.cli.token import mint
from gateway.config import read
from gateway.demo.fleet import FleetError, start_fleet
from gateway.model import JsonObject
from gateway.processes.serving import Serving
from gateway.server import Addresses, ListenError
from gateway.settings import Config

DESCRIPTION = "Runs demonstration tool servers behind a gateway until Ctrl-C, and prints curl lines to paste."

FLAT = ("OXP-Version: 1.0",)
OTC, OXP = "otc://1.0", "urn:oxp:1.0"
BUILD, BUILD_ID, BUILD_S = "Builds.build", "build-1", 5  # longer than the route in demo.yaml waits
USUAL_PORT, USUAL_ADMIN_PORT = 8080, 9464
TOKEN_TTL_S = 12 * 3600  # a day at the keyboard
USER = "ada"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = f"default: {USUAL_PORT}, or a free one if it is taken; 0: any free one"
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
    text = (files("gateway.demo") / "demo.yaml").read_text("utf-8")
    env = {f"DEMO_{name.upper()}_URL": url for name, url in urls.items()}
    env |= {"DEMO_JWT_SECRET": secrets.token_hex(32), "DEMO_PORT": str(port), "DEMO_ADMIN_PORT": str(admin_port)}
    config = read(text, source="demo.yaml", env=env)
    serving = Serving(config)
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
    put(introduction(*urls, token=token, user=USER, command=_own_command()))


def _own_command() -> str:
    """What to type for this program in another terminal."""
    script = Path(sys.executable).with_name(PROGRAM)
    if shutil.which(PROGRAM) is not None:
        return PROGRAM
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m gateway"


@dataclass(frozen=True, slots=True)
class Example:
    """One request. `expect` is the status and a part of the answer; `body` None makes it a GET."""

    what: str
    path: str
    body: JsonObject | None
    expect: str
    headers: Sequence[str] = ()

    def curl(self, url: str) -> str:
        """A line for any POSIX shell; the token comes from the variable exported before."""
        words = ["curl", "-sS", "-w", r"\n%{http_code}\n", f"{url}{self.path}"]
        line = " ".join(map(shlex.quote, words)) + ' -H "Authorization: Bearer $TOOLGATE_TOKEN"'
        headers, data = list(self.headers), ""
        if self.body is not None:
            headers.append("Content-Type: application/json")
            data = f" -d {shlex.quote(json.dumps(self.body))}"
        return line + "".join(f" -H {shlex.quote(header)}" for header in headers) + data


def introduction(url: str, admin_url: str, *, token: str, user: str, command: str) -> str:
    """Everything the demonstration prints once it runs."""
    return "\n".join(
        [
            f"Toolgate is listening on {url} (for operators: {admin_url}/health). Ctrl-C stops it.",
            "",
            "Paste any of these into another terminal:",
            "",
            "# this one first: where the gateway is, and who you are",
            f"export TOOLGATE_URL={shlex.quote(url)} TOOLGATE_TOKEN={shlex.quote(token)}",
            "",
            "One tool, on a server that speaks OTC, called in five dialects; behind each -> is what to expect:",
            *_lines(_one_tool_in_every_dialect(), url),
            "",
            "A catalogue, and what happens when a call needs something or goes wrong:",
            *_lines(_what_tools_need(user), url),
            "",
            "Tool servers that answer later, one by calling back and one with breadcrumbs:",
            *_lines(_tools_that_answer_later(user), url),
            "",
            "The same without curl:",
            f"{command} tools",
            f"{command} call Calculator.Add a=2 b=40",
            f"{command} call {BUILD} seconds={BUILD_S} --call-id {BUILD_ID}",
            f"{command} call Mail.Search query=invoice --user-id {user}",
        ]
    )


def _lines(examples: Iterable[Example], url: str) -> list[str]:
    return [line for example in examples for line in (f"# {example.what} -> {example.expect}", example.curl(url))]


def _one_tool_in_every_dialect() -> list[Example]:
    call = {"tool_id": "Calculator.Add@1", "input": {"a": 2, "b": 40}}
    return [
        Example("the draft RFC of OTC", "/rfc/call", {"request": call}, '200, "output": {"value": 42}'),
        Example("OTC 1.0", "/otc/tools/call", {"$schema": OTC, "request": call}, '200, "value": 42'),
        Example("OXP 1.0", "/oxp/tools/call", call, '200, "value": 42', FLAT),
        Example("OXP 1.0, enveloped", "/oxp-env/tools/call", {"$schema": OXP, "request": call}, '200, "value": 42'),
        Example("the form of the LangChain family", "/lc/tools/call", {"request": call}, '200, "value": 42'),
    ]


def _what_tools_need(user: str) -> list[Example]:
    """Without a prefix in the path: the dialect is recognised."""
    wrong = {"tool_id": "Calculator.Add@1", "input": {"a": 2, "b": "forty"}}
    ring = {"tool_id": "Doorbell.Ring", "input": {"doorbell_id": "doorbell1"}}
    sms = {"tool_id": "Sms.Send", "input": {"to": "+4712345678", "text": "hello"}}
    secret = {"context": {"secrets": [{"id": "SMS_API_KEY", "value": "any"}]}}
    mail = {"tool_id": "Mail.Search", "input": {"query": "invoice"}, "context": {"user_id": user}}
    path = "/tools/call"
    return [
        Example("the catalogue, as OXP lists it", "/tools", None, '200, "items": [', FLAT),
        Example("wrong input never reaches a tool", path, wrong, '422, "parameter_errors": {"b":', FLAT),
        Example("a tool that fails is an answer", path, ring, '200, "can_retry": true', FLAT),
        Example(
            "a tool on an OXP server that needs a secret", path, sms, '400, "secrets": [{"id": "SMS_API_KEY"}]', FLAT
        ),
        Example("the same with the secret", path, sms | secret, '200, "status": "queued"', FLAT),
        Example(
            "a mailbox that wants the consent of its user, in OTC: open the url, connect, paste again",
            path,
            {"$schema": OTC, "request": mail},
            '400, "url":',
        ),
    ]


def _tools_that_answer_later(user: str) -> list[Example]:
    lint = {"tool_id": "Builds.lint", "input": {"source": "print(1) "}}
    build = {"call_id": BUILD_ID, "tool_id": BUILD, "input": {"seconds": BUILD_S}}
    deploy = {"tool_id": "Builds.deploy", "input": {"target": "staging"}, "context": {"user_id": user}}
    dice = {"tool_id": "Crumbs.random", "input": {"min": 1, "max": 6}}
    path = "/tools/call"
    return [
        Example("a tool that calls back at once", path, lint, '200, "problem": "trailing whitespace"', FLAT),
        Example(
            "one that takes longer than anybody waits: paste again for its value",
            path,
            build,
            '200, "message": "The tool is still running."',
            FLAT,
        ),
        Example(
            "one that wants the consent of its user and then goes on by itself: open the url, connect, paste again",
            path,
            deploy,
            '400, "url":',
            FLAT,
        ),
        Example("a tool behind breadcrumbs", path, dice, '200, "numbers": [', FLAT),
    ]
