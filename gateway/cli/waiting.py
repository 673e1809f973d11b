"""Waiting for a call that is not over yet: for a tool that takes long, or for the consent of a user.

A consent follows OXP 1.0, Tool Authorization Challenges.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from gateway.cli import answers
from gateway.cli.output import USAGE, CommandError, complain
from gateway.cli.remote import Remote, code_of, explain, refused_for_s
from gateway.errors import ErrorCode, FailureCode
from gateway.model import JsonObject
from gateway.transport import Reply

CONSENT_S = 600.0  # to find the page, log in and decide; providers forget sooner or later, too
POLL_S = 1.0  # between two looks at least
CALL_ID = b"toolgate-call-id"


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
    outcome = answers.read(reply.body, answers.Outcome)
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
    refused = answers.read(reply.body, answers.Refusal) if needs else None
    missing = refused.missing_requirements if refused else answers.Missing()
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
    while time.monotonic() < give_up_at:
        reply = await remote.look(check_url)
        if reply.status == 429:  # many look, perhaps behind the same address
            await asyncio.sleep(POLL_S)
            continue
        answer = answers.read(reply.body, answers.ChallengeStatus)
        match answer.status if answer else None:
            case "completed":
                return
            case "pending":
                await asyncio.sleep(POLL_S)
            case _:
                raise CommandError(USAGE, "The consent was declined, or it took too long.")
    raise CommandError(USAGE, f"Nobody consented within {CONSENT_S:.0f} s; repeat the command to try again.")
