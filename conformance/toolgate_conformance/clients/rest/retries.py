"""Checks of which calls a client retries, when, and under which id."""

from __future__ import annotations

from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import BUSY_MS, LIMITED_S
from toolgate_conformance.clients.rest.stage import request_in
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry

RETRY_PAGE = "Call Tool, Retrying Errors"
ID_PAGE = "Call Tool, call_id"
MAX_RETRIED = 20  # calls, of one that fails each time

check: Registry[RestObservation] = Registry()


@check(43, MUST, RETRY_PAGE)
def no_retry(failed: RestObservation) -> None:
    """A call that failed with `can_retry` false is not retried.

    Fix: Give up: a retry fails as well, or does harm.
    """
    failed.must_call_once()


@check(44, MUST, RETRY_PAGE)
def no_retry_by_default(failed_plainly: RestObservation) -> None:
    """A call that failed without `can_retry` is not retried.

    Fix: Treat a missing can_retry as false.
    """
    failed_plainly.must_call_once()


@check(45, SHOULD, "Call Tool, Error Responses")
def no_retry_of_refusals(refused: RestObservation, invalid: RestObservation) -> None:
    """A refused call is not retried unchanged.

    Fix: Do not retry after 400 and 422: the response will be the same.
    """
    refused.must_call_once()
    invalid.must_call_once()


@check(48, SHOULD, RETRY_PAGE)
def waits_before_retry(busy: RestObservation) -> None:
    """A call is not retried before `retry_after_ms` has passed.

    Fix: Wait as long as the response says.
    """
    busy.must_pause(BUSY_MS / 1000)


@check(49, SHOULD, RETRY_PAGE, silent=frozenset({"rfc", "lc"}))
def retries(busy: RestObservation) -> None:
    """A call that failed with `can_retry` true is retried.

    Fix: Retry it after retry_after_ms, as the specification recommends.
    """
    busy.must(len(busy.calls) > 1, "A second call.")
    busy.must(busy.exit_code == 0, "Exit code 0: the second call succeeds.")


@check(50, SHOULD, RETRY_PAGE)
def gives_up(always_busy: RestObservation) -> None:
    """Retries end at some point.

    Fix: Limit the number of attempts, and the time that they take.
    """
    always_busy.must(
        len(always_busy.calls) <= MAX_RETRIED, f"At most {MAX_RETRIED} calls, not {len(always_busy.calls)}."
    )
    always_busy.must_fail("a tool that fails each time")


@check(51, SHOULD, f"{ID_PAGE}, and RFC 9110, 9.2.2")
def repeats_with_id(
    broken: RestObservation, reset: RestObservation, cut: RestObservation, garbled: RestObservation
) -> None:
    """A call that may have run is retried only under its id.

    Fix: Retry with the same call_id, or not at all: otherwise the tool may run twice.
    """
    after = {"status 500": broken, "a reset connection": reset, "half a response": cut, "a page of HTML": garbled}
    for what, seen in after.items():
        ids = [(request_in(seen.form, it) or {}).get("call_id") for it in seen.calls]
        fits = len(ids) < 2 or (ids[0] is not None and len(set(map(repr, ids))) == 1)
        seen.must(fits, f"After {what}, no retry, or one with the same `call_id`; the ids were {ids}.")


@check(52, GOOD, ID_PAGE)
def repeats(reset: RestObservation) -> None:
    """A call whose response was lost is retried under its id.

    Fix: Retry with the same call_id: the server answers with the result that it has.
    """
    reset.must(len(reset.calls) > 1, "A second call with the same `call_id`.")
    reset.must(reset.exit_code == 0, "Exit code 0: the second call succeeds.")


@check(53, GOOD, "Call Tool, with Retry-After as in RFC 9110")
def waits_when_limited(limited: RestObservation) -> None:
    """A call is not retried before `Retry-After` has passed.

    Fix: After a 429, wait as many seconds as the header says.
    """
    limited.must_pause(LIMITED_S)
