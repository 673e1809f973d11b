"""`toolgate init`: writes a first configuration, for a tool server that is asked what it speaks."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gateway.cli import configuration
from gateway.cli.drafting import questions
from gateway.cli.drafting.callers import Callers, Trusted, callers
from gateway.cli.drafting.draft import OWNER, WORKSPACE, Draft, Wanted, checked
from gateway.cli.output import FAILED, INTERRUPTED, OK, PROGRAM, USAGE, CommandError, complain, count, put, say
from gateway.cli.remarks import remarks_on
from gateway.core.model import JsonObject
from gateway.logs import output as logs
from gateway.net.server import main_loop
from gateway.protocols import PROTOCOLS
from gateway.settings import Config
from gateway.settings.warnings import warnings

DESCRIPTION = (
    "Finds out which protocol a tool server speaks and which tools it has, writes a configuration for it, and checks "
    "that live. Without a URL, on a terminal, it asks questions. It never overwrites a file."
)
UNSAID = (
    f"Give the URL of a tool server or of an OpenAPI document: {PROGRAM} init URL.",
    f"On a terminal, {PROGRAM} init alone asks for everything.",
)
NOTHING = "Nothing is written."


class Plan(NamedTuple):
    """What is to be written, and where. `exported` are the variables that the shell has."""

    draft: Draft
    callers: Callers
    output: Path
    exported: frozenset[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    file = f"the file to write (default: {configuration.DEFAULT})"
    parser.add_argument(
        "place",
        metavar="URL",
        nargs="?",
        help="the URL of a tool server, of an HTTP API or of an OpenAPI document, or the path of a document",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=file)
    parser.add_argument(
        "--protocol",
        choices=sorted(word for word, protocol in PROTOCOLS.items() if protocol.drafter),
        help="the protocol of the tool server (default: found by asking)",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the name of the backend (default: made from that of the tool server)"
    )
    parser.add_argument(
        "--token-env", metavar="VAR", help="the environment variable that holds the token for the tool server"
    )
    _add_callers(parser.add_argument_group("who may call"))
    rcrt = parser.add_argument_group("a server of breadcrumbs (RCRT)")
    rcrt.add_argument("--owner-id", metavar="UUID", default=OWNER, help="the tenant (default: %(default)s)")
    rcrt.add_argument("--workspace", metavar="TAG", default=WORKSPACE, help="its tag (default: %(default)s)")
    _add_choices(parser.add_argument_group("an API with an OpenAPI document"))


def _add_callers(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--api-key", action="store_true", help="callers have an API key, which is made and shown once (default)"
    )
    group.add_argument("--issuer", metavar="URL", help="callers have tokens of this OpenID Connect issuer")
    group.add_argument(
        "--jwks-url", metavar="URL", help="with --issuer: where its keys are, if it does not publish that"
    )
    group.add_argument("--jwt-public-key", metavar="FILE", help="with --issuer: its public key, in PEM")
    group.add_argument(
        "--jwt-secret-env",
        metavar="VAR",
        help="callers have tokens signed with the secret in this environment variable",
    )
    audience = "what tokens must be for; may be repeated (default: toolgate)"
    group.add_argument("--audience", action="append", default=[], metavar="NAME", help=audience)


def _add_choices(group: argparse._ArgumentGroup) -> None:
    calls = "where calls go (default: the document's first server, if it is at the origin of the document)"
    group.add_argument("--url", metavar="URL", help=calls)
    methods = "a method whose operations may become tools, or all; may be repeated (default: those that only read)"
    group.add_argument("--method", action="append", default=[], metavar="METHOD", help=methods)
    group.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only operations with this tag; may be repeated"
    )
    group.add_argument(
        "--operation",
        action="append",
        default=[],
        metavar="GLOB",
        help="only operations whose id fits; may be repeated",
    )
    group.add_argument("--max", type=int, metavar="N", help="the largest number of tools (default: 200)")
    group.add_argument(
        "--allow-http", action="store_true", help="allow fetching the document over http from another machine"
    )


def run(arguments: argparse.Namespace) -> int:
    logs.configure("error", "text")  # what warnings have to say is in the draft
    if arguments.place is not None:
        return _write(_planned(arguments))
    if not questions.on_terminal():
        raise CommandError(USAGE, *UNSAID)
    try:
        return _write(_asked(arguments))
    except EOFError:
        complain("", NOTHING)
        return FAILED
    except KeyboardInterrupt:
        complain("", NOTHING)
        return INTERRUPTED


def _planned(arguments: argparse.Namespace) -> Plan:
    """Goes by the words alone. Raises CommandError."""
    output: Path = arguments.output or configuration.DEFAULT
    if os.path.lexists(output):  # before anything is asked
        raise _exists(output)
    may_call = main_loop(callers(_trusted(arguments), output.parent))
    return Plan(_draft(_wanted(arguments, output), arguments.protocol), may_call, output, frozenset(os.environ))


def _asked(arguments: argparse.Namespace) -> Plan:
    """Asks for what the words do not say, and says what was found. Raises CommandError, EOFError."""
    exported = frozenset(os.environ)
    folder = (arguments.output or configuration.DEFAULT).parent
    wanted = _wanted(arguments, arguments.output or configuration.DEFAULT)
    trusted = _trusted(arguments)
    if trusted.public_key is not None:  # where the configuration will lie may not be known yet
        trusted = replace(trusted, public_key=os.path.abspath(trusted.public_key))
    draft = questions.server(wanted, lambda wanted: _draft(wanted, arguments.protocol))
    if arguments.api_key or trusted != Trusted():
        may_call = main_loop(callers(trusted, folder))
    else:
        may_call = questions.callers(lambda trusted: main_loop(callers(trusted, folder)))
    output = arguments.output or questions.output(configuration.DEFAULT, Path(f"{draft.name}.yaml"))
    return Plan(draft._replace(said=()), may_call._replace(said=()), output, exported)


def _wanted(arguments: argparse.Namespace, output: Path) -> Wanted:
    return Wanted(
        place=arguments.place or "",
        folder=output.parent,
        name=arguments.name,
        token_env=arguments.token_env,
        owner_id=arguments.owner_id,
        workspace=arguments.workspace,
        methods=arguments.method,
        tags=arguments.tag,
        operations=arguments.operation,
        max_tools=arguments.max,
        calls_url=arguments.url,
        allow_http=arguments.allow_http,
    )


def _trusted(arguments: argparse.Namespace) -> Trusted:
    """Raises CommandError for words that contradict one another."""
    trusted = Trusted(
        secret_env=arguments.jwt_secret_env,
        public_key=arguments.jwt_public_key,
        jwks_url=arguments.jwks_url,
        issuer=arguments.issuer,
        audience=tuple(arguments.audience),
    )
    if arguments.api_key and trusted != Trusted():
        raise CommandError(USAGE, "Callers have either an API key or tokens here; the file can be given both later.")
    return trusted


def _draft(wanted: Wanted, protocol: str | None) -> Draft:
    """Asks the server. Raises CommandError."""
    from gateway.cli.drafting.asking import ask  # with all of the gateway, for which the first question would wait

    draft = main_loop(ask(wanted, protocol))
    checked(f"auth: none\nbackends:\n{draft.yaml}", wanted.folder)  # its name may be none
    if draft.protocol != "openapi" and wanted.chooses_operations:
        raise CommandError(USAGE, f"It speaks {draft.form}; --url, --method, --tag, --operation, --max are for APIs.")
    return draft


def _write(plan: Plan) -> int:
    """Checks what is planned, writes it, and says what comes next. Raises CommandError."""
    draft, may_call, output, _ = plan
    text = _text(draft, may_call)
    config = checked(text, output.parent, without=draft.guessed)
    problems, is_good = _check_live(config)
    _create(output, text)
    say(f"{output} is written.", *draft.said, *may_call.said)
    say(f"  Checked live: {count(len(problems), 'problem') if problems else 'no problems'}.")
    say(*(f"    {problem}" for problem in problems), "", "Next:")
    put(*_next_steps(plan))
    return OK if is_good else FAILED


def _check_live(config: Config) -> tuple[list[str], bool]:
    """All that `toolgate check --live` would say, and whether everything answers."""
    from gateway.cli.inspection import inspect

    found: JsonObject = main_loop(inspect(config))
    problems = [*warnings(config), *(remark.text for remark in remarks_on(found))]
    return problems, all(one["up"] for one in (*found["backends"].values(), *found["issuers"].values()))


def _create(output: Path, text: str) -> None:
    """Raises CommandError, also where there is a file already."""
    try:
        with output.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                output.unlink()  # a part of it would be taken for the whole
                raise
    except FileExistsError:
        raise _exists(output) from None
    except OSError as exc:
        raise CommandError(USAGE, f"{output} cannot be written: {exc.strerror}.") from exc


def _exists(output: Path) -> CommandError:
    return CommandError(USAGE, f"{output} is there already and stays as it is; name another with --output.")


def _text(draft: Draft, may_call: Callers) -> str:
    routes = "".join(f'  - tools: "{pattern}"\n    backend: {draft.name}\n' for pattern in draft.routes)
    return f"""\
# Made by `{PROGRAM} init`; every key is explained in docs/configuration.md
auth: # who may call
{may_call.yaml}backends: # where tools are
{draft.yaml}routes: # which tools are published, and to whom
{routes}"""


def _next_steps(plan: Plan) -> Iterator[str]:
    """The commands to go on with, each with what it is for."""
    named = plan.output != configuration.DEFAULT
    option = f" -c {shlex.quote(str(plan.output))}" if named else ""
    variables, given = {**plan.draft.variables, **plan.callers.variables}, plan.exported - plan.draft.guessed
    steps = [(f"export {name}=...", what) for name, what in variables.items() if name not in given]
    there = ", where that secret is exported too" if plan.callers.variables else ""
    steps += [
        (f"{PROGRAM} serve{option}", f"the gateway; then, in another terminal{there}:"),
        (f"export TOOLGATE_TOKEN={plan.callers.token.format(config=option)}", plan.callers.about_token),
        (f"{PROGRAM} tools", "what callers may use"),
    ]
    width = max(len(command) for command, _ in steps if not command.startswith("export TOOLGATE_TOKEN"))
    yield from (f"  {command.ljust(width)}  # {what}" for command, what in steps)
