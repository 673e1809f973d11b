"""Checks of the notices of a RAP runtime: the cancellation of a call, and the closure of a thread.

The runtime is interrupted while a tool works. Whether it ever closes a thread is its own affair.
"""

from __future__ import annotations

from toolgate_conformance.checks import SECRET_HEADERS, SkippedError
from toolgate_conformance.clients.rap.scenarios import HELD_S, LATE_S, RESULT
from toolgate_conformance.clients.rap.seen import CANCEL, CLOSE, Seen
from toolgate_conformance.clients.scenario_checks import MUST, SHOULD, Registry
from toolgate_conformance.clients.scripted import Request

PAGE = "Tool cancellation"
CLOSURE_PAGE = "Thread closure"

check = Registry("RAPC", "RAP")


@check(
    70,
    SHOULD,
    "A call that is interrupted is cancelled",
    "interrupted",
    section=PAGE,
    remedy=f"On SIGINT, POST {CANCEL} below the base URL of the tool server, then exit.",
)
def interrupted_call_is_cancelled(interrupted: Seen) -> None:
    interrupted.invoked()
    interrupted.must(bool(interrupted.cancellations), f"A request POST {CANCEL} after SIGINT.")


@check(
    71,
    MUST,
    "A cancellation is a POST of JSON with both ids of the call",
    "interrupted",
    section=PAGE,
    remedy="Send `group_id` of the invocation as `thread_id` and its `id` as `tool_call_id`, as application/json.",
)
def cancellation_names_call(interrupted: Seen) -> None:
    notice, call = _first_cancellation(interrupted), interrupted.invoked()
    members = interrupted.must_post_json(notice)
    for name, wanted in (("thread_id", call.get("group_id")), ("tool_call_id", call.get("id"))):
        interrupted.must(members.get(name) == wanted, f"`{name}` {wanted!r}, not {members.get(name)!r}.")


@check(
    72,
    MUST,
    "A cancellation is sent below the base URL of the tool server",
    "interrupted",
    section=PAGE,
    remedy=f"Append {CANCEL} to the URL to which you append the path of the toolset; `endpoint` is another URL.",
)
def cancellation_is_below_base(interrupted: Seen) -> None:
    _first_cancellation(interrupted)
    _must_be_below_base(interrupted, interrupted.cancellations, CANCEL)


@check(
    73,
    MUST,
    "A notice that is refused is not sent again",
    "notice-refused",
    section=f"{PAGE}, {CLOSURE_PAGE}",
    remedy="Send each notice once, and do not look at the status.",
)
def notices_are_not_retried(refused: Seen) -> None:
    _first_cancellation(refused)
    for name, sent in (("cancellation", refused.cancellations), ("closure", refused.closures)):
        refused.must(len(sent) <= 1, f"One {name}, not {len(sent)}.")


@check(
    74,
    MUST,
    "The end of a cancelled call does not wait for the answer to the notice",
    "notice-held",
    section=PAGE,
    remedy="Send the notice in the background; before you exit, wait a second at most.",
)
def notices_do_not_block(held: Seen) -> None:
    took_s = held.ended_s - _first_cancellation(held).at_s
    held.must(took_s < HELD_S, f"An end before the answer, which comes {HELD_S:g} s after the cancellation.")


@check(
    75,
    MUST,
    "Notices have the credentials of invocations",
    "interrupted",
    section=f"{PAGE}, {CLOSURE_PAGE}, Security considerations",
    remedy="Authenticate both kinds of notices as you authenticate invocations: tool servers refuse them otherwise.",
)
def notices_are_authenticated(interrupted: Seen) -> None:
    notices = [*interrupted.cancellations, *interrupted.closures]
    if not notices:
        raise SkippedError("The runtime sends no notices.")
    interrupted.invoked()
    named = SECRET_HEADERS & interrupted.invocations[0].headers.keys()
    if not named:
        raise SkippedError("The runtime sends no credentials.")
    for notice in notices:
        lacking = sorted(named - notice.headers.keys())
        interrupted.must(not lacking, f"The header {', '.join(lacking)} in {notice.method} {notice.target}.")


@check(
    76,
    MUST,
    "A cancelled call is not invoked again",
    "interrupted",
    section=PAGE,
    remedy="Retry nothing after the cancellation.",
)
def cancelled_call_stays_cancelled(interrupted: Seen) -> None:
    _first_cancellation(interrupted)
    interrupted.must_invoke_once()


@check(
    77,
    MUST,
    "A result that arrives after the cancellation does no harm",
    "interrupted",
    section=PAGE,
    remedy="Answer it with 200 for as long as you receive callbacks: result and cancellation may cross.",
)
def late_result_does_no_harm(interrupted: Seen) -> None:
    _first_cancellation(interrupted)
    statuses = interrupted.statuses("late")
    interrupted.must(all(it is None or it < 500 for it in statuses), "No 5xx status for the result.")
    interrupted.must(interrupted.exit_code is not None, "A command that ends after SIGINT.")


@check(
    78,
    SHOULD,
    "A result that arrives after the cancellation is discarded",
    "interrupted",
    section=PAGE,
    remedy="Print nothing of a call that was reported as cancelled.",
)
def late_result_is_discarded(interrupted: Seen) -> None:
    _first_cancellation(interrupted)
    interrupted.must(RESULT not in interrupted.stdout, "No result in the output.")


@check(
    80,
    MUST,
    "The closure of a thread is a POST of JSON with its `thread_id`, below the base URL of the tool server",
    "prefixed",
    section=CLOSURE_PAGE,
    remedy=f"POST `group_id` of the invocations as `thread_id` to {CLOSE}, which is appended to the base URL.",
)
def closure_names_thread(prefixed: Seen) -> None:
    closures, wanted = _closures(prefixed), prefixed.invoked().get("group_id")
    for notice in closures:
        found = prefixed.must_post_json(notice).get("thread_id")
        prefixed.must(found == wanted, f"`thread_id` {wanted!r}, not {found!r}.")
    _must_be_below_base(prefixed, closures, CLOSE)


@check(
    81,
    MUST,
    "A thread is not closed while a call in it is pending",
    "late",
    section=CLOSURE_PAGE,
    remedy="Close the thread after the result of its last call: tool servers free what the thread uses.",
)
def closure_is_last(late: Seen) -> None:
    closed_s = _closures(late)[0].at_s
    late.must(closed_s >= late.invocations[0].at_s + LATE_S, "No closure before the result.")


def _first_cancellation(seen: Seen) -> Request:
    """Raises SkippedError without a cancellation: whether there is one is a check of its own."""
    if not seen.cancellations:
        raise SkippedError("The runtime cancels no call.")
    return seen.cancellations[0]


def _closures(seen: Seen) -> list[Request]:
    """Closures of the thread of a call. Raises SkippedError if there are none."""
    if not seen.closures or not seen.invocations:
        raise SkippedError("The runtime closes no thread of a call.")
    return seen.closures


def _must_be_below_base(seen: Seen, notices: list[Request], path: str) -> None:
    wanted = seen.scenario.path.rstrip("/") + path
    for notice in notices:
        is_there = not notice.is_elsewhere and notice.path == wanted
        seen.must(is_there, f"A request to {wanted}, not to {notice.path}.")
