"""Waiting until a user has granted what a tool asked for (OXP 1.0, Tool Authorization Challenges)."""

from __future__ import annotations

import asyncio
import time

from gateway.cli import answers
from gateway.cli.output import USAGE, CommandError, complain
from gateway.cli.remote import Remote, code_of
from gateway.errors import ErrorCode
from gateway.transport import Reply

WAIT_S = 600.0  # to find the page, log in and decide; providers forget sooner or later too
POLL_S = 1.0  # between two looks; a person does not notice, a gateway hardly


async def wait_for_consent(remote: Remote, reply: Reply, give_up_at: float) -> bool:
    """Shows where to consent and waits until it is given; False when the answer asks for nothing one could watch.

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
    raise CommandError(USAGE, f"Nobody consented within {WAIT_S:.0f} s; repeat the command to try again.")
