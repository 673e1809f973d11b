"""`toolgate call`: calls a tool of a running gateway; standard output gets the value and nothing else."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import secrets
import shlex
import sys
from collections.abc import Sequence

from gateway.cli.output import FAILED, OK, USAGE, CommandError, complain, print_answer, print_value, seconds
from gateway.cli.remote import add_options, explain, explained, gateway_of
from gateway.client import Consent, Failure, RefusedError, Toolgate, ToolgateError
from gateway.client.answers import LOCATION, GatewayReply, Outcome, read
from gateway.client.toolgate import Follower, request_of
from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FailureCode
from gateway.core.model import Json, JsonObject

DESCRIPTION = (
    "Calls a tool and prints its value. Exit code: 0 success, 1 the tool failed, 2 refused, 3 gateway out of reach."
)

MAX_INPUT_BYTES = 64 * 1024 * 1024  # the largest body any gateway can be configured to take
TIMEOUT_S = 600  # people look again after a while; a script that knows its tool says more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("tool", metavar="TOOL", help="Toolkit.Tool or Toolkit.Tool@x.y.z")
    parser.add_argument(
        "arguments",
        nargs="*",
        default=(),  # or argparse calls them required where the tool is missing
        metavar="key=value",
        help="""an argument; the value is read as JSON if it is JSON, else as text; '"12"' is the text 12""",
    )
    parser.add_argument("--input", metavar="JSON", help="all arguments as one JSON object; - reads standard input")
    parser.add_argument(
        "--call-id", metavar="ID", help="an id that you choose; a repeated call with the same id gets the same result"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="how long to wait for a tool that takes longer than its route's timeout (default: %(default)s)",
    )
    parser.add_argument("--user-id", metavar="ID", help="the user for whom the tool works")
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="ID[=VALUE]",
        help="a secret that the tool needs; without VALUE, the environment variable ID; may be repeated",
    )
    parser.add_argument(
        "--authorization",
        action="append",
        default=[],
        metavar="ID=TOKEN",
        help="a token that the tool needs; may be repeated",
    )
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        help="when the tool needs your consent, wait for it and call again (default: on a terminal)",
    )


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_call(arguments))


def typed(arguments: argparse.Namespace) -> JsonObject:
    """The CallToolRequest that was typed, with an id to come back with. Raises CommandError."""
    return request_of(
        arguments.tool,
        _input(arguments),
        secrets.token_hex(8) if arguments.call_id is None else arguments.call_id,
        user_id=arguments.user_id,
        tokens=dict(_pair(text, "--authorization ID=TOKEN") for text in arguments.authorization),
        secrets=dict(map(_secret, arguments.secret)),
    )


class Waiting(Follower):
    """Says what is waited for. `may_run`: the call may go on when the waiting ends."""

    def __init__(self, *, waits_for_consent: bool) -> None:
        self.may_run = False
        self.is_asked_for = False
        self._waits_for_consent = waits_for_consent

    def sends(self) -> None:
        self.may_run, self.is_asked_for = True, False

    def waits(self) -> None:
        self.is_asked_for = True
        complain("The tool is still running. Waiting for it; Ctrl-C leaves it running.")

    async def consents(self, asked: Sequence[Consent], *, is_begun: bool) -> bool:
        if not self._waits_for_consent:
            return False
        self.may_run = self.is_asked_for = is_begun
        complain("The tool needs your consent. Open", *(f"  {consent.url}" for consent in asked))
        complain("Waiting for it; Ctrl-C gives up.")
        return True


async def _call(arguments: argparse.Namespace) -> int:
    request, gateway = typed(arguments), gateway_of(arguments)
    waits = sys.stderr.isatty() if arguments.wait is None else arguments.wait
    async with gateway:
        reply = await _last_reply(gateway, request, Waiting(waits_for_consent=waits), arguments.timeout)
        if reply.goes_on:
            complain(how_to_fetch(request["call_id"]))
        outcome = read(reply.body, Outcome) if reply.status in (200, 202) else None
        if outcome is not None:
            return _show(reply, outcome, request["call_id"], as_json=arguments.json)
        with explained(gateway):
            try:
                gateway.refused(reply)
            except RefusedError as error:
                raise await _refused(gateway, error, request, as_json=arguments.json) from error


async def _last_reply(gateway: Toolgate, request: JsonObject, waiting: Waiting, timeout_s: float) -> GatewayReply:
    """Waits for a call, and says how to fetch its result if the waiting ends before it. Raises CommandError."""
    with explained(gateway):
        try:
            return await gateway.last_reply(request, waiting, patience_s=timeout_s)
        except asyncio.CancelledError:
            if waiting.may_run:
                complain("The tool may still be running.", how_to_fetch(request["call_id"]))
            raise
        except ToolgateError:
            if waiting.is_asked_for:
                complain("The tool may still be running.", how_to_fetch(request["call_id"]))
            raise


async def _refused(gateway: Toolgate, error: RefusedError, request: JsonObject, *, as_json: bool) -> CommandError:
    """What to say of a call that was refused."""
    # After a consent, a call that the gateway keeps goes on by itself, and must not begin twice.
    is_begun = LOCATION in error.reply.headers
    same_call = f" with --call-id {shlex.quote(request['call_id'])}" if is_begun else ""
    if as_json:
        print_answer(error.reply.body)
    hints = await _similar(gateway, request["tool_id"]) if error.code == ErrorCode.TOOL_NOT_FOUND else []
    return CommandError(USAGE, *explain(gateway, error, f"repeat the command{same_call}"), *hints)


def _show(reply: GatewayReply, outcome: Outcome, call_id: str, *, as_json: bool) -> int:
    try:
        if as_json:
            print_answer(reply.body)
        elif outcome.success:
            print_value(outcome.value)
    except CommandError as exc:  # the tool has run, and must not run again because a disk is full
        raise CommandError(exc.code, *exc.lines, how_to_fetch(call_id)) from exc
    if not outcome.success:
        complain(*_failure(outcome.error, still_runs=reply.code == FailureCode.STILL_RUNNING))
    return OK if outcome.success else FAILED


def how_to_fetch(call_id: str) -> str:
    """What to type for a call's result. The words of its command are not repeated: there may be secrets in them."""
    return f"For its result repeat the command with this call id: toolgate call ... --call-id {shlex.quote(call_id)}"


def _failure(error: Failure, *, still_runs: bool) -> list[str]:
    lines = [error.message]
    if error.additional_prompt_content is not None:
        lines.append(f"  {error.additional_prompt_content}")
    if error.can_retry and not still_runs:  # it would only be joined, which was said already
        after = "" if error.retry_after_ms is None else f" in {error.retry_after_ms / 1000:g} s"
        lines.append(f"It may be called again{after}.")
    return lines


async def _similar(gateway: Toolgate, wanted: str) -> list[str]:
    """What to say when no tool has that name; nothing when one has, or when that cannot be found out."""
    try:
        listed = await gateway.tools()
    except ToolgateError:
        return []
    name, names = wanted.partition("@")[0], {tool.id.partition("@")[0] for tool in listed}
    close = difflib.get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(sorted(close))}?" if close else "`toolgate tools` lists all tools."
    return [] if name in names else [hint]


def _input(arguments: argparse.Namespace) -> JsonObject:
    given: Json = {}
    if arguments.input is not None:
        text = sys.stdin.buffer.read(MAX_INPUT_BYTES) if arguments.input == "-" else os.fsencode(arguments.input)
        try:
            given = jsontext.decode(text)
        except jsontext.JsonError as exc:
            raise CommandError(USAGE, f"--input is not JSON: {exc}.") from exc
        if not isinstance(given, dict):
            raise CommandError(USAGE, "--input must be a JSON object.")
    pairs = (_pair(text, "key=value") for text in arguments.arguments)
    return {**given, **{key: _value(text) for key, text in pairs}}


def _pair(text: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        # The text may be a secret: it is not repeated.
        raise CommandError(USAGE, f"An argument is not of the form {form}.")
    return key, value


def _secret(text: str) -> tuple[str, str]:
    if "=" in text:
        return _pair(text, "--secret ID=VALUE")
    if text not in os.environ:
        raise CommandError(USAGE, "A --secret has no value, and no environment variable has its name.")
    return text, os.environ[text]


def _value(text: str) -> Json:
    try:
        return jsontext.decode(os.fsencode(text))
    except jsontext.JsonError:
        return text
