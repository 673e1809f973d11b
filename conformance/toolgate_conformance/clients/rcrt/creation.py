"""Checks of how a client reacts when its request is refused, or when it does not know whether it was stored."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.clients.rcrt.scenarios import RESULT
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI, RUNNER

CREATE = f"{OPENAPI}: POST /breadcrumbs"
KEY = f"{CREATE}, Idempotency-Key"

check: Registry[RcrtObservation] = Registry()


@check(30, MUST, KEY)
def stored_once(lost_answer: RcrtObservation, bad_gateway: RcrtObservation) -> None:
    """A request that may have been stored is not stored a second time.

    Fix: Send an Idempotency-Key and a tag of your own. Look for that tag before you use another key.
    """
    for seen in (lost_answer, bad_gateway):
        seen.must_ask_once()


@check(31, SHOULD, CREATE)
def lost_answer(lost_answer: RcrtObservation, bad_gateway: RcrtObservation) -> None:
    """The response to a request whose answer was lost is returned.

    Fix: Choose the requestId yourself, and wait for its response: the tool may be running.
    """
    for seen in (lost_answer, bad_gateway):
        seen.must_return()


@check(32, MUST, KEY)
def duplicate_key(duplicate: RcrtObservation) -> None:
    """A 409 is not followed by a request under another key.

    Fix: Look for the request by a tag of your own: a 409 says that the key was used before, by this very request.
    """
    duplicate.asked()
    if duplicate.creations[0][1].status != 409:
        raise SkippedError("The client sends no Idempotency-Key.")
    duplicate.must_ask_once()


@check(33, SHOULD, KEY)
def not_stored(not_stored: RcrtObservation) -> None:
    """A request that failed with 500 and was not stored is stored under another key, or the call fails.

    Fix: Look for the request before you wait for its response. A key is used up even if nothing was stored.
    """
    not_stored.asked()
    not_stored.must(not_stored.exit_code is not None, "A command that ends.")
    if not_stored.exit_code == 0:
        not_stored.must(RESULT in str(not_stored.value()), "The output of a response, or a non-zero exit code.")


@check(34, MUST, CREATE)
def refusal_is_failure(refused: RcrtObservation) -> None:
    """A refused request fails the call.

    Fix: Report the failure to the caller. The body of a refusal is plain text.
    """
    refused.asked()
    refused.must_fail("status 422")


@check(35, GOOD, CREATE)
def refusal_is_final(refused: RcrtObservation) -> None:
    """A request that is refused with 422 is not repeated.

    Fix: Give up: the server refuses the same breadcrumb again.
    """
    refused.asked()
    refused.must(len(refused.creations) == 1, f"One request for the tool, not {len(refused.creations)}.")


@check(36, MUST, f"{RUNNER}: dispatchEventToTool")
def slow_call(late: RcrtObservation) -> None:
    """A slow call is not requested again.

    Fix: Wait for the response: each request that is stored runs the tool.
    """
    late.must_ask_once()
    late.must_return()
