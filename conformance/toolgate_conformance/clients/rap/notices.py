"""Checks of the notices of a RAP runtime: the cancellation of a call, and the closure of a thread.

The runtime is interrupted while a tool works. Whether it ever closes a thread is its own affair.
"""

from __future__ import annotations

from toolgate_conformance.checks import SECRET_HEADERS, SkippedError
from toolgate_conformance.clients.rap.observation import CANCEL, CLOSE, RapObservation
from toolgate_conformance.clients.rap.scenarios import HELD_S, LATE_S, RESULT
from toolgate_conformance.clients.scripted import Request
from toolgate_conformance.registry import MUST, SHOULD, Registry

PAGE = "Tool cancellation"
CLOSURE_PAGE = "Thread closure"

check: Registry[RapObservation] = Registry()


@check(70, SHOULD, PAGE)
def interrupted_call_is_cancelled(interrupted: RapObservation) -> None:
    """A call that is interrupted is cancelled.

    Fix: On SIGINT, POST /cancel_tool_call below the base URL of the tool server, then exit.
    """
    interrupted.invoked()
    interrupted.must(bool(interrupted.cancellations), f"A request POST {CANCEL} after SIGINT.")


@check(71, MUST, PAGE)
def cancellation_names_call(interrupted: RapObservation) -> None:
    """A cancellation is a POST of JSON with both ids of the call.

    Fix: Send `group_id` of the invocation as `thread_id` and its `id` as `tool_call_id`, as application/json.
    """
    notice, call = _first_cancellation(interrupted), interrupted.invoked()
    members = interrupted.must_post_json(notice)
    for name, wanted in (("thread_id", call.get("group_id")), ("tool_call_id", call.get("id"))):
        interrupted.must(members.get(name) == wanted, f"`{name}` {wanted!r}, not {members.get(name)!r}.")


@check(72, MUST, PAGE)
def cancellation_is_below_base(interrupted: RapObservation) -> None:
    """A cancellation is sent below the base URL of the tool server.

    Fix: Append /cancel_tool_call to the URL to which you append the path of the toolset; `endpoint` is another URL.
    """
    _first_cancellation(interrupted)
    _must_be_below_base(interrupted, interrupted.cancellations, CANCEL)


@check(73, MUST, f"{PAGE}, {CLOSURE_PAGE}")
def notices_are_not_retried(notice_refused: RapObservation) -> None:
    """A notice that is refused is not sent again.

    Fix: Send each notice once, and do not look at the status.
    """
    _first_cancellation(notice_refused)
    for name, sent in (("cancellation", notice_refused.cancellations), ("closure", notice_refused.closures)):
        notice_refused.must(len(sent) <= 1, f"One {name}, not {len(sent)}.")


@check(74, MUST, PAGE)
def notices_do_not_block(notice_held: RapObservation) -> None:
    """The end of a cancelled call does not wait for the answer to the notice.

    Fix: Send the notice in the background; before you exit, wait a second at most.
    """
    took_s = notice_held.ended_s - _first_cancellation(notice_held).at_s
    notice_held.must(took_s < HELD_S, f"An end before the answer, which comes {HELD_S:g} s after the cancellation.")


@check(75, MUST, f"{PAGE}, {CLOSURE_PAGE}, Security considerations")
def notices_are_authenticated(interrupted: RapObservation) -> None:
    """Notices have the credentials of invocations.

    Fix: Authenticate both kinds of notices as you authenticate invocations: tool servers refuse them otherwise.
    """
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


@check(76, MUST, PAGE)
def cancelled_call_stays_cancelled(interrupted: RapObservation) -> None:
    """A cancelled call is not invoked again.

    Fix: Retry nothing after the cancellation.
    """
    _first_cancellation(interrupted)
    interrupted.must_invoke_once()


@check(77, MUST, PAGE)
def late_result_does_no_harm(interrupted: RapObservation) -> None:
    """A result that arrives after the cancellation does no harm.

    Fix: Answer it with 200 for as long as you receive callbacks: result and cancellation may cross.
    """
    _first_cancellation(interrupted)
    statuses = interrupted.statuses("late")
    interrupted.must(all(it is None or it < 500 for it in statuses), "No 5xx status for the result.")
    interrupted.must(interrupted.exit_code is not None, "A command that ends after SIGINT.")


@check(78, SHOULD, PAGE)
def late_result_is_discarded(interrupted: RapObservation) -> None:
    """A result that arrives after the cancellation is discarded.

    Fix: Print nothing of a call that was reported as cancelled.
    """
    _first_cancellation(interrupted)
    interrupted.must(RESULT not in interrupted.stdout, "No result in the output.")


@check(80, MUST, CLOSURE_PAGE)
def closure_names_thread(prefixed: RapObservation) -> None:
    """The closure of a thread is a POST of JSON with its `thread_id`, below the base URL of the tool server.

    Fix: POST `group_id` of the invocations as `thread_id` to /close_thread, which is appended to the base URL.
    """
    closures, wanted = _closures(prefixed), prefixed.invoked().get("group_id")
    for notice in closures:
        found = prefixed.must_post_json(notice).get("thread_id")
        prefixed.must(found == wanted, f"`thread_id` {wanted!r}, not {found!r}.")
    _must_be_below_base(prefixed, closures, CLOSE)


@check(81, MUST, CLOSURE_PAGE)
def closure_is_last(late: RapObservation) -> None:
    """A thread is not closed while a call in it is pending.

    Fix: Close the thread after the result of its last call: tool servers free what the thread uses.
    """
    closed_s = _closures(late)[0].at_s
    late.must(closed_s >= late.invocations[0].at_s + LATE_S, "No closure before the result.")


def _first_cancellation(seen: RapObservation) -> Request:
    """Raises SkippedError without a cancellation: whether there is one is a check of its own."""
    if not seen.cancellations:
        raise SkippedError("The runtime cancels no call.")
    return seen.cancellations[0]


def _closures(seen: RapObservation) -> list[Request]:
    """Closures of the thread of a call. Raises SkippedError if there are none."""
    if not seen.closures or not seen.invocations:
        raise SkippedError("The runtime closes no thread of a call.")
    return seen.closures


def _must_be_below_base(seen: RapObservation, notices: list[Request], path: str) -> None:
    wanted = seen.scenario.path.rstrip("/") + path
    for notice in notices:
        is_there = not notice.is_elsewhere and notice.path == wanted
        seen.must(is_there, f"A request to {wanted}, not to {notice.path}.")
