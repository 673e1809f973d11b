"""`toolgate call`: calls a tool of a running gateway; standard output gets the value and nothing else."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from gateway import jsontext
from gateway.cli.output import FAILED, OK, USAGE, CommandError, complain, print_answer, print_value, seconds
from gateway.cli.remote import (
    Catalogue,
    ChallengeStatus,
    Failure,
    Missing,
    Outcome,
    Refusal,
    Remote,
    add_options,
    code_of,
    explain,
    no_gateway,
    read,
    refused_for_s,
)
from gateway.errors import ErrorCode, FailureCode
from gateway.model import Json, JsonObject
from gateway.transport import Reply

DESCRIPTION = "Prints the value. Exit code: 0 success, 1 the tool failed, 2 refused, 3 gateway out of reach."

MAX_INPUT_BYTES = 64 * 1024 * 1024  # the largest body any gateway can be configured to take
TIMEOUT_S = 600  # people look again after a while; a script that knows its tool says more
CONSENT_S = 600.0  # to find the page, log in and decide; providers forget sooner or later, too
POLL_S = 1.0  # between two looks at least
CALL_ID = b"toolgate-call-id"
MAX_CONSENTS = 5  # one after the other for one call; a tool that asks on and on will not be satisfied


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("tool", metavar="TOOL", help="Toolkit.Tool or Toolkit.Tool@x.y.z")
    parser.add_argument(
        "arguments",
        nargs="*",
        default=(),  # or argparse calls them required where the tool is missing
        metavar="key=value",
        help="""JSON where it can be, else text; '"12"' is the text 12""",
    )
    parser.add_argument("--input", metavar="JSON", help="all arguments as one JSON object; - reads standard input")
    parser.add_argument(
        "--call-id", metavar="ID", help="your own name for this call; repeated, it gets the same result"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="how long to wait for a tool that outlasts the gateway's own patience (default: %(default)s)",
    )
    parser.add_argument("--user-id", metavar="ID", help="for whom the tool works")
    parser.add_argument(
        "--secret", action="append", default=[], metavar="ID[=VALUE]", help="without a value: from the variable ID"
    )
    parser.add_argument("--authorization", action="append", default=[], metavar="ID=TOKEN", help="may be repeated")
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        help="when the tool needs your consent, wait for it and call again (default: on a terminal)",
    )


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_call(arguments))


def request_of(arguments: argparse.Namespace) -> JsonObject:
    """The CallToolRequest that was typed, with an id to come back with. Raises CommandError."""
    context: JsonObject = {}
    if arguments.authorization:
        tokens = (_pair(text, "--authorization ID=TOKEN") for text in arguments.authorization)
        context["authorization"] = [{"id": key, "token": token} for key, token in tokens]
    if arguments.secret:
        context["secrets"] = [{"id": key, "value": value} for key, value in map(_secret, arguments.secret)]
    if arguments.user_id is not None:
        context["user_id"] = arguments.user_id
    call_id = secrets.token_hex(8) if arguments.call_id is None else arguments.call_id
    body: JsonObject = {"call_id": call_id, "tool_id": arguments.tool, "input": _input(arguments)}
    return body | ({"context": context} if context else {})


async def _call(arguments: argparse.Namespace) -> int:
    body = request_of(arguments)
    waits = sys.stderr.isatty() if arguments.wait is None else arguments.wait
    remote = Remote(arguments.url, arguments.token)
    reply = await ask_until_over(remote, body, arguments.timeout)
    if waits:
        reply = await _with_consent(remote, reply, body, arguments.timeout)
    if reply.status in (200, 202):
        return _show(remote, reply, body["call_id"], as_json=arguments.json)
    # After a consent, a call that the gateway keeps goes on by itself, and must not begin twice.
    same_call = f" with --call-id {shlex.quote(body['call_id'])}" if reply.header(b"location") is not None else ""
    why = list(explain(remote, reply, f"repeat the command{same_call}"))
    if arguments.json:
        print_answer(reply.body)
    hints = await _similar(remote, arguments.tool) if code_of(reply) == ErrorCode.TOOL_NOT_FOUND else []
    raise CommandError(USAGE, *why, *hints)


async def _with_consent(remote: Remote, reply: Reply, body: JsonObject, timeout_s: float) -> Reply:
    """Repeats a call for as long as consent is what it needs; a refused call has not run, or is joined."""
    give_up_at = time.monotonic() + CONSENT_S
    for _ in range(MAX_CONSENTS):
        begun = (asyncio.CancelledError, CommandError) if reply.header(b"location") is not None else ()
        with fetchable(body["call_id"], *begun):
            if not await wait_for_consent(remote, reply, give_up_at):
                break
        reply = await ask_until_over(remote, body, timeout_s)
    return reply


def _show(remote: Remote, reply: Reply, call_id: str, *, as_json: bool) -> int:
    outcome = read(reply.body, Outcome)
    if outcome is None:
        no_gateway(remote.url, reply)
    try:
        if as_json:
            print_answer(reply.body)
        elif outcome.success:
            print_value(outcome.value)
    except CommandError as exc:  # the tool has run, and must not run again because a disk is full
        raise CommandError(exc.code, *exc.lines, how_to_fetch(call_id)) from exc
    if not outcome.success:
        complain(*_failure(outcome.error, still_runs=code_of(reply) == FailureCode.STILL_RUNNING))
    return OK if outcome.success else FAILED


def _failure(error: Failure, *, still_runs: bool) -> list[str]:
    lines = [error.message]
    if error.additional_prompt_content is not None:
        lines.append(f"  {error.additional_prompt_content}")
    if error.can_retry and not still_runs:  # it would only be joined, which was said already
        after = "" if error.retry_after_ms is None else f" in {error.retry_after_ms / 1000:g} s"
        lines.append(f"It may be called again{after}.")
    return lines


async def _similar(remote: Remote, wanted: str) -> list[str]:
    """What to say when no tool has that name; nothing when one has, or when that cannot be found out."""
    try:
        reply = await remote.ask("GET", "/tools")
    except CommandError:
        return []
    listed = read(reply.body, Catalogue) if reply.status == 200 else None
    if listed is None:
        return []
    name, names = wanted.partition("@")[0], {tool.id.partition("@")[0] for tool in listed.items}
    close = difflib.get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(sorted(close))}?" if close else "`toolgate tools` lists those there are."
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


async def ask_until_over(remote: Remote, body: JsonObject, timeout_s: float) -> Reply:
    """Sends a call and waits for its end; `timeout_s` is what it may take beyond the gateway's own patience.

    Returns the answer that any repetition gets, or the last one if it still runs then. Raises CommandError.
    """
    call_id: str = body["call_id"]
    with fetchable(call_id, asyncio.CancelledError):
        reply = await remote.ask("POST", "/tools/call", body)
    if not _goes_on(reply):
        return reply
    complain("The tool is still running. Waiting for it; Ctrl-C leaves it running.")
    with fetchable(call_id, asyncio.CancelledError, CommandError):
        reply = await _until_over(remote, reply, time.monotonic() + timeout_s)
    if _goes_on(reply):
        complain(how_to_fetch(call_id))
    return reply


@contextmanager
def fetchable(call_id: str, *reasons: type[BaseException]) -> Iterator[None]:
    """Says how to fetch the result if the waiting ends for one of the reasons."""
    try:
        yield
    except reasons:
        complain("The tool may still be running.", how_to_fetch(call_id))
        raise


def how_to_fetch(call_id: str) -> str:
    """What to type for a call's result. The words of its command are not repeated: there may be secrets in them."""
    return f"For its result repeat the command with this call id: toolgate call ... --call-id {shlex.quote(call_id)}"


def _goes_on(reply: Reply) -> bool:
    """Whether the call still runs, and can be asked for."""
    can_be_asked_for = reply.header(b"location") is not None and reply.header(CALL_ID) is not None
    return can_be_asked_for and code_of(reply) == FailureCode.STILL_RUNNING


def _pause_s(reply: Reply) -> float:
    """How long the gateway suggests to wait."""
    outcome = read(reply.body, Outcome)
    after_ms = None if outcome is None else outcome.error.retry_after_ms
    return POLL_S if after_ms is None else max(after_ms / 1000, POLL_S)


async def _until_over(remote: Remote, reply: Reply, give_up_at: float) -> Reply:
    """Polls until there is a result, a consent to be given, or no time left; a poll may be refused for a while."""
    # By its id rather than at `Location`: our credential goes nowhere but to the gateway that was typed.
    path = f"/calls/{quote(reply.header(CALL_ID) or b'', safe='')}"
    pause_s = _pause_s(reply)
    while (left_s := give_up_at - time.monotonic()) > 0:
        await asyncio.sleep(min(pause_s, left_s))
        seen = await remote.ask("GET", path)
        if _goes_on(seen):
            reply, pause_s = seen, _pause_s(seen)
        elif seen.status == 200 or (seen.status == 400 and seen.header(b"location") is not None):
            return seen
        elif (later_s := refused_for_s(seen)) is not None:
            pause_s = max(later_s, POLL_S)
        else:
            raise CommandError(USAGE, *explain(remote, seen))
    return reply


async def wait_for_consent(remote: Remote, reply: Reply, give_up_at: float) -> bool:
    """Shows where to consent and waits until it is given; False when the answer has nothing to watch.

    `give_up_at` is a time of the monotonic clock in seconds. Raises CommandError.
    """
    needs = code_of(reply) == ErrorCode.MISSING_REQUIREMENTS
    refused = read(reply.body, Refusal) if needs else None
    missing = refused.missing_requirements if refused else Missing()
    watched = [challenge.check_url for challenge in missing.authorization if challenge.check_url is not None]
    # With something else missing too, the repeated call would only be refused again.
    if not watched or len(watched) < len(missing.authorization) or missing.secrets or missing.user_id:
        return False
    complain("The tool needs your consent. Open", *(f"  {challenge.url}" for challenge in missing.authorization))
    complain("Waiting for it; Ctrl-C gives up.")
    for check_url in watched:
        await _until_settled(remote, check_url, give_up_at)
    return True


async def _until_settled(remote: Remote, check_url: str, give_up_at: float) -> None:
    """Polls a challenge until it is completed. Raises CommandError when it is not."""
    while time.monotonic() < give_up_at:
        reply = await remote.look(check_url)
        answer = read(reply.body, ChallengeStatus)
        status = answer.status if answer else None
        if status == "completed":
            return
        if status != "pending" and reply.status != 429:  # which is for many who look, perhaps behind the same address
            raise CommandError(USAGE, "The consent was declined, or it took too long.")
        await asyncio.sleep(POLL_S)
    raise CommandError(USAGE, f"Nobody consented within {CONSENT_S:.0f} s; repeat the command to try again.")
