"""Checks of how a client reacts when its request is refused, or when it does not know whether it was stored."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.rcrt.scenarios import RESULT
from toolgate_conformance.clients.rcrt.seen import Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.rcrt.registry import OPENAPI, RUNNER

CREATE = f"{OPENAPI}: POST /breadcrumbs"
KEY = f"{CREATE}, Idempotency-Key"

check = Registry("RCRTC")


@check(
    30,
    MUST,
    "A request that may have been stored is not stored a second time",
    "lost-answer",
    "bad-gateway",
    section=KEY,
    remedy="Send an Idempotency-Key and a tag of your own. Look for that tag before you use another key.",
)
def stored_once(lost: Seen, gateway: Seen) -> None:
    for seen in (lost, gateway):
        seen.must_ask_once()


@check(
    31,
    SHOULD,
    "The response to a request whose answer was lost is returned",
    "lost-answer",
    "bad-gateway",
    section=CREATE,
    remedy="Choose the requestId yourself, and wait for its response: the tool may be running.",
)
def lost_answer(lost: Seen, gateway: Seen) -> None:
    for seen in (lost, gateway):
        seen.must_return()


@check(
    32,
    MUST,
    "A 409 is not followed by a request under another key",
    "duplicate",
    section=KEY,
    remedy="Look for the request by a tag of your own: a 409 says that the key was used before, by this very request.",
)
def duplicate_key(duplicate: Seen) -> None:
    duplicate.asked()
    if duplicate.creations[0][1].status != 409:
        raise SkippedError("The client sends no Idempotency-Key.")
    duplicate.must_ask_once()


@check(
    33,
    SHOULD,
    "A request that failed with 500 and was not stored is stored under another key, or the call fails",
    "not-stored",
    section=KEY,
    remedy="Look for the request before you wait for its response. A key is used up even if nothing was stored.",
)
def not_stored(missing: Seen) -> None:
    missing.asked()
    missing.must(missing.exit_code is not None, "A command that ends.")
    if missing.exit_code == 0:
        missing.must(RESULT in str(missing.value()), "The output of a response, or a non-zero exit code.")


@check(
    34,
    MUST,
    "A refused request fails the call",
    "refused",
    section=CREATE,
    remedy="Report the failure to the caller. The body of a refusal is plain text.",
)
def refusal_is_failure(refused: Seen) -> None:
    refused.asked()
    refused.must_fail()


@check(
    35,
    GOOD,
    "A request that is refused with 422 is not repeated",
    "refused",
    section=CREATE,
    remedy="Give up: the server refuses the same breadcrumb again.",
)
def refusal_is_final(refused: Seen) -> None:
    refused.asked()
    refused.must(len(refused.creations) == 1, f"One request for the tool, not {len(refused.creations)}.")


@check(
    36,
    MUST,
    "A slow call is not requested again",
    "late",
    section=f"{RUNNER}: dispatchEventToTool",
    remedy="Wait for the response: each request that is stored runs the tool.",
)
def slow_call(late: Seen) -> None:
    late.must_ask_once()
    late.must_return()
