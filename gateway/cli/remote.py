"""What the commands that ask a running gateway share: its URL and token, and refusals as sentences."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.cli.output import UNREACHABLE, USAGE, CommandError
from gateway.client import ConsentError, RefusedError, Toolgate, UnreachableError
from gateway.client.toolgate import DEFAULT_URL
from gateway.core.errors import ErrorCode

NO_TEXT = "is not a string"  # as schemas word it
HOW_TO_LOG_IN = (
    "Put your API key or bearer token in TOOLGATE_TOKEN; `toolgate token -c FILE` makes a token for development."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the URL of the gateway and the token."""
    url, token = os.environ.get("TOOLGATE_URL") or DEFAULT_URL, os.environ.get("TOOLGATE_TOKEN")
    parser.add_argument("--url", default=url, help="the URL of the gateway; better set TOOLGATE_URL (now: %(default)s)")
    parser.add_argument(
        "--token", default=token, help="a bearer token; better set TOOLGATE_TOKEN, which other users cannot see"
    )
    parser.add_argument("--json", action="store_true", help="print the gateway's whole answer")


def gateway_of(arguments: argparse.Namespace) -> Toolgate:
    """The gateway that the options name. Raises CommandError."""
    try:
        return Toolgate(arguments.url, arguments.token or "")
    except ValueError as exc:
        hint = [HOW_TO_LOG_IN] if "token" in str(exc) else []
        raise CommandError(USAGE, " ".join((str(exc), *hint))) from exc


@contextmanager
def explained(gateway: Toolgate, again: str = "repeat the command") -> Iterator[None]:
    """Turns what a client raises into what a command says; `again` is what to do after a consent."""
    try:
        yield
    except UnreachableError as exc:
        raise CommandError(UNREACHABLE, str(exc), *([exc.advice] if exc.advice else [])) from exc
    except RefusedError as exc:
        raise CommandError(USAGE, *explain(gateway, exc, again)) from exc
    except ConsentError as exc:
        raise CommandError(USAGE, str(exc)) from exc
    except UnicodeEncodeError as exc:  # bytes of the command line that are no text
        raise CommandError(USAGE, "An argument is not valid UTF-8 text.") from exc
    except ValueError as exc:
        raise CommandError(USAGE, str(exc)) from exc


def explain(gateway: Toolgate, error: RefusedError, again: str) -> Iterator[str]:
    """Says why a request was refused and what to do about it, in lines."""
    refusal, missing = error.refusal, error.refusal.missing_requirements
    if error.code == ErrorCode.UNAUTHENTICATED:  # whatever the status: `errors.strict` makes it a 400
        yield "The gateway does not accept the token; it may have expired." if gateway.has_token else refusal.message
        yield HOW_TO_LOG_IN
        return
    yield refusal.message
    if refusal.developer_message is not None:
        yield refusal.developer_message
    yield from (f"  {name}: {what}" for name, what in refusal.parameter_errors.items())
    if NO_TEXT in refusal.parameter_errors.values():
        yield """  A number, true, false and null are read as JSON: '"12"' is the text 12."""
    yield from (f"  Open {consent.url}" for consent in missing.authorization)
    if missing.authorization:
        yield f"  and {again} when you are done there."
    yield from (f"  Give --secret {secret.id}=VALUE." for secret in missing.secrets)
    if missing.user_id:
        yield "  Give --user-id ID."
    if error.retry_after_s is not None:
        yield f"Try again in {error.retry_after_s} s."
