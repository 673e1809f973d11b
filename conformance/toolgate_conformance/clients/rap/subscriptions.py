"""Checks of how a RAP runtime handles a call that opens a subscription, and the events of it.

A runtime may return the confirmation at once, or read events until the last one: both are right.
"""

from __future__ import annotations

from toolgate_conformance.clients.rap.observation import RapObservation
from toolgate_conformance.clients.rap.scenarios import OTHER, RESULT
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry

PAGE = "Subscription events"

check: Registry[RapObservation] = Registry()


@check(60, MUST, PAGE)
def confirmation_is_returned(ended: RapObservation) -> None:
    """The confirmation of a subscription is the result of its call.

    Fix: Print the text of the result that has `subscription: true`; events may follow it.
    """
    ended.must_return(RESULT)


@check(61, MUST, PAGE)
def event_completes_nothing(early_event: RapObservation) -> None:
    """An event does not complete a call.

    Fix: Wait for the result: the first event may arrive before the confirmation.
    """
    early_event.must_return(RESULT)


@check(62, GOOD, PAGE)
def early_event_is_taken(early_event: RapObservation) -> None:
    """An event that arrives before the confirmation is answered with 200.

    Fix: Find the call by `tool_call_id`, which events have in place of `id`: tools do not repeat refused events.
    """
    early_event.must(early_event.statuses("early") == [200], "Status 200 for the event, within 5 s.")


@check(63, MUST, f"{PAGE}, Security considerations")
def events_without_subscription(foreign_event: RapObservation, ended: RapObservation) -> None:
    """An event without an active subscription is discarded.

    Fix: Take events only if tool_call_id and group_id are those of a subscription, and none after the final one.
    """
    foreign_event.must(OTHER not in foreign_event.stdout, "No event of another call in the output.")
    ended.must(OTHER not in ended.stdout, "No event after the final one in the output.")


@check(64, SHOULD, f"{PAGE}, Automatic cancellation")
def subscription_is_cancelled(subscription: RapObservation) -> None:
    """A subscription that is still active is cancelled before the runtime ends.

    Fix: POST a cancellation before you exit: nobody receives the later events.
    """
    documents = [it.document for it in subscription.cancellations]
    ids = [it.get("tool_call_id") for it in documents if isinstance(it, dict)]
    subscription.must(subscription.invoked().get("id") in ids, "A cancellation with the `id` of the call.")
