"""Checks of which calls a client retries, when, and under which id."""

from __future__ import annotations

from toolgate_conformance.clients.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.clients.scenarios import BUSY_MS, LIMITED_S
from toolgate_conformance.clients.seen import Seen
from toolgate_conformance.clients.stage import request_in

RETRY_PAGE = "Call Tool, Retrying Errors"
ID_PAGE = "Call Tool, call_id"
MAX_RETRIED = 20  # calls, of one that fails each time

check = Registry()


@check(
    43,
    MUST,
    "A call that failed with `can_retry` false is not retried",
    "failed",
    page=RETRY_PAGE,
    remedy="Give up: a retry fails as well, or does harm.",
)
def no_retry(failed: Seen) -> None:
    failed.must_call_once()


@check(
    44,
    MUST,
    "A call that failed without `can_retry` is not retried",
    "failed-plainly",
    page=RETRY_PAGE,
    remedy="Treat a missing can_retry as false.",
)
def no_retry_by_default(plainly: Seen) -> None:
    plainly.must_call_once()


@check(
    45,
    SHOULD,
    "A refused call is not retried unchanged",
    "refused",
    "invalid",
    page="Call Tool, Error Responses",
    remedy="Do not retry after 400 and 422: the response will be the same.",
)
def no_retry_of_refusals(refused: Seen, invalid: Seen) -> None:
    refused.must_call_once()
    invalid.must_call_once()


@check(
    48,
    SHOULD,
    "A call is not retried before `retry_after_ms` has passed",
    "busy",
    page=RETRY_PAGE,
    remedy="Wait as long as the response says.",
)
def waits_before_retry(busy: Seen) -> None:
    busy.must_pause(BUSY_MS / 1000)


@check(
    49,
    SHOULD,
    "A call that failed with `can_retry` true is retried",
    "busy",
    page=RETRY_PAGE,
    remedy="Retry it after retry_after_ms, as the specification recommends.",
    silent=frozenset({"rfc", "lc"}),
)
def retries(busy: Seen) -> None:
    busy.must(len(busy.calls) > 1, "A second call.")
    busy.must(busy.has_succeeded, "Exit code 0: the second call succeeds.")


@check(
    50,
    SHOULD,
    "Retries end at some point",
    "always-busy",
    page=RETRY_PAGE,
    remedy="Limit the number of attempts, and the time that they take.",
)
def gives_up(busy: Seen) -> None:
    busy.must(len(busy.calls) <= MAX_RETRIED, f"At most {MAX_RETRIED} calls, not {len(busy.calls)}.")
    busy.must_fail("a tool that fails each time")


@check(
    51,
    SHOULD,
    "A call that may have run is retried only under its id",
    "broken",
    "reset",
    "cut",
    "garbled",
    page=f"{ID_PAGE}, and RFC 9110, 9.2.2",
    remedy="Retry with the same call_id, or not at all: otherwise the tool may run twice.",
)
def repeats_with_id(broken: Seen, reset: Seen, cut: Seen, garbled: Seen) -> None:
    after = {"status 500": broken, "a reset connection": reset, "half a response": cut, "a page of HTML": garbled}
    for what, seen in after.items():
        ids = [(request_in(seen.form, it) or {}).get("call_id") for it in seen.calls]
        fits = len(ids) < 2 or (ids[0] is not None and len(set(map(repr, ids))) == 1)
        seen.must(fits, f"After {what}, no retry, or one with the same `call_id`; the ids were {ids}.")


@check(
    52,
    GOOD,
    "A call whose response was lost is retried under its id",
    "reset",
    page=ID_PAGE,
    remedy="Retry with the same call_id: the server answers with the result that it has.",
)
def repeats(reset: Seen) -> None:
    reset.must(len(reset.calls) > 1, "A second call with the same `call_id`.")
    reset.must(reset.has_succeeded, "Exit code 0: the second call succeeds.")


@check(
    53,
    GOOD,
    "A call is not retried before `Retry-After` has passed",
    "limited",
    page="Call Tool, with Retry-After as in RFC 9110",
    remedy="After a 429, wait as many seconds as the header says.",
)
def waits_when_limited(limited: Seen) -> None:
    limited.must_pause(LIMITED_S)
