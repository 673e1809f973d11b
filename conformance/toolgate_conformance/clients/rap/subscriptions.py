"""Checks of how a RAP runtime handles a call that opens a subscription, and the events of it.

A runtime may return the confirmation at once, or read events until the last one: both are right.
"""

from __future__ import annotations

from toolgate_conformance.clients.rap.scenarios import OTHER, RESULT
from toolgate_conformance.clients.rap.seen import Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry

PAGE = "Subscription events"

check = Registry("RAPC", "RAP")


@check(
    60,
    MUST,
    "The confirmation of a subscription is the result of its call",
    "ended",
    section=PAGE,
    remedy="Print the text of the result that has `subscription: true`; events may follow it.",
)
def confirmation_is_returned(ended: Seen) -> None:
    ended.must_return(RESULT)


@check(
    61,
    MUST,
    "An event does not complete a call",
    "early-event",
    section=PAGE,
    remedy="Wait for the result: the first event may arrive before the confirmation.",
)
def event_completes_nothing(early: Seen) -> None:
    early.must_return(RESULT)


@check(
    62,
    GOOD,
    "An event that arrives before the confirmation is answered with 200",
    "early-event",
    section=PAGE,
    remedy="Find the call by `tool_call_id`, which events have in place of `id`: tools do not repeat refused events.",
)
def early_event_is_taken(early: Seen) -> None:
    early.must(early.statuses("early") == [200], "Status 200 for the event, within 5 s.")


@check(
    63,
    MUST,
    "An event without an active subscription is discarded",
    "foreign-event",
    "ended",
    section=f"{PAGE}, Security considerations",
    remedy="Take events only if tool_call_id and group_id are those of a subscription, and none after the final one.",
)
def events_without_subscription(foreign: Seen, ended: Seen) -> None:
    foreign.must(OTHER not in foreign.stdout, "No event of another call in the output.")
    ended.must(OTHER not in ended.stdout, "No event after the final one in the output.")


@check(
    64,
    SHOULD,
    "A subscription that is still active is cancelled before the runtime ends",
    "subscription",
    section=f"{PAGE}, Automatic cancellation",
    remedy="POST a cancellation before you exit: nobody receives the later events.",
)
def subscription_is_cancelled(subscription: Seen) -> None:
    documents = [it.document for it in subscription.cancellations]
    ids = [it.get("tool_call_id") for it in documents if isinstance(it, dict)]
    subscription.must(subscription.invoked().get("id") in ids, "A cancellation with the `id` of the call.")
