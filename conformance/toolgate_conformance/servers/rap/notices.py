"""Checks of cancellation, closure of threads and subscriptions."""

from __future__ import annotations

from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rap.common import NOT_SERVED, ensure_served
from toolgate_conformance.servers.rap.invocation import CANCEL, CLOSE
from toolgate_conformance.servers.rap.server import RapServer

CROSSING = 0.25  # of the time in which nothing may come: a message and a notice may cross

check: Registry[RapServer] = Registry()


@check(60, SHOULD, "Tool Cancellation, Thread Closure")
async def notices_are_served(server: RapServer) -> None:
    """The server takes cancellations and closures of threads.

    Fix: Serve POST /cancel_tool_call and /close_thread, below the URL of the toolset.
    """
    for answer in (await server.cancel("kit-thread", "kit-unknown"), await server.close("kit-thread")):
        answer.must(answer.status not in NOT_SERVED, "Status 200.")


@check(61, MUST, "Tool Cancellation")
async def cancels(server: RapServer) -> None:
    """A cancellation is answered with 200, even for an unknown call.

    Fix: Always answer 200: a notice may come twice, late, or for something unknown.
    """
    await ensure_served(server, CANCEL)
    for _ in range(2):
        answer = await server.cancel("kit-thread", "kit-unknown")
        answer.must(answer.status == 200, "Status 200.")


@check(62, MUST, "Thread Closure")
async def closes(server: RapServer) -> None:
    """The closure of a thread is answered with 200, even for an unknown thread.

    Fix: Always answer 200: a notice may come twice, late, or for something unknown.
    """
    await ensure_served(server, CLOSE)
    for _ in range(2):
        answer = await server.close("kit-thread")
        answer.must(answer.status == 200, "Status 200.")


@check(63, MUST, "Tool Cancellation")
async def cancels_calls(server: RapServer) -> None:
    """A cancelled call leads to at most one result.

    Fix: End the call silently, or finish it: result and cancellation may cross.
    """
    call = await server.plain()
    await ensure_served(server, CANCEL)
    invocation = await server.make(call)
    for _ in range(2):  # the second comes too late
        answer = await server.cancel(invocation.group_id, invocation.id)
        answer.must(answer.status == 200, "Status 200.")
    await server.quiet()
    results = invocation.inbox.of("tool_result")
    invocation.must(len(results) <= 1, f"At most one tool_result, not {len(results)}.")
    await server.finished(call)


@check(64, MUST, "Subscription Events")
async def ends_subscriptions(server: RapServer) -> None:
    """A subscription that has ended sends no event.

    Fix: Send nothing after the event that is `final`, nor after the cancellation of the call.
    """
    is_tried = False
    for _, invocation in await server.observed():
        events = invocation.inbox.of("subscription_event")
        finals = [number for number, each in enumerate(events) if each.document.get("final") is True]
        if finals:
            is_tried = True
            invocation.must(len(events) == finals[0] + 1, "No event after the one that is final.", events[-1])
        elif invocation.cancelled_s is not None and invocation.inbox.of("tool_result"):
            is_tried = True
            since = invocation.cancelled_s + server.waits.quiet_s * CROSSING
            late = [each for each in events if each.came_s > since]
            invocation.must(not late, "No event after the cancellation.", late[0] if late else None)
    if not is_tried:
        raise SkippedError("No call of --call opens a subscription.")


@check(65, GOOD, "Tool Cancellation, Thread Closure")
async def unreadable_notices(server: RapServer) -> None:
    """A malformed notice does no harm.

    Fix: Validate the ids in notices; answer 200 or 4xx.
    """
    hostile: tuple[Any, ...] = ([], {}, {"thread_id": 1, "tool_call_id": {"kit": []}}, {"thread_id": "../" * 1000})
    for path in (CANCEL, CLOSE):
        for body in hostile:
            answer = await server.notice(path, body)
            answer.must(answer.status < 500, "A status below 500.")


@check(66, MUST, "Subscription Events")
async def confirms_subscriptions(server: RapServer) -> None:
    """The result of a call that sends events has `subscription: true`.

    Fix: Confirm a subscription with a `tool_result` that has "subscription": true.
    """
    is_tried = False
    for _, invocation in await server.observed():
        results = invocation.inbox.of("tool_result")
        if results and invocation.inbox.of("subscription_event"):
            is_tried = True
            is_confirmed = any(each.document.get("subscription") is True for each in results)
            invocation.must(is_confirmed, "`subscription` true in the tool_result.", results[0])
    if not is_tried:
        raise SkippedError("No call of --call opens a subscription.")
