"""Checks of how callbacks are delivered, and of concurrent calls."""

from __future__ import annotations

import asyncio

from toolgate_conformance.callbacks import statuses
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rap.server import RapServer

AT_ONCE = 10

check: Registry[RapServer] = Registry()


@check(50, SHOULD, "Transport")
async def delivers_again(server: RapServer) -> None:
    """A callback answered with 503 is sent again.

    Fix: After a 5xx or a time-out, post it again a few times, with longer and longer pauses.
    """
    invocation, _ = await server.finished(await server.plain(), reply=statuses(503))
    refused = invocation.inbox.callbacks[0]  # may be a `view_update`
    again = await invocation.inbox.first(lambda it: it.document == refused.document, server.waits.result_s, after=1)
    invocation.must(again is not None, "The same callback again.")


@check(51, SHOULD, "Transport")
async def gives_up(server: RapServer) -> None:
    """A callback answered with 4xx is not sent again.

    Fix: Give up: the caller no longer knows the call.
    """

    async def refuse(_number: int) -> int:
        return 404

    invocation, _ = await server.finished(await server.plain(), reply=refuse)
    await server.quiet()
    invocation.must(len(invocation.inbox.of("tool_result")) == 1, "No second tool_result after a status of 404.")


@check(52, GOOD, "Transport")
async def waits_for_answers(server: RapServer) -> None:
    """A callback that is answered slowly is sent once.

    Fix: Wait some seconds for the answer: the caller may have to store the result first.
    """

    async def slowly(_number: int) -> int:
        await asyncio.sleep(server.waits.hold_s)
        return 200

    invocation, _ = await server.finished(await server.plain(), reply=slowly)
    await asyncio.sleep(server.waits.hold_s)
    await server.quiet()
    invocation.must(
        len(invocation.inbox.of("tool_result")) == 1, f"One tool_result, answered after {server.waits.hold_s:g} s."
    )


@check(70, MUST, "Tool Result")
async def calls_at_once(server: RapServer) -> None:
    """Concurrent calls get their own results.

    Fix: Share no state between calls.
    """
    call = await server.plain()
    for invocation, result in await asyncio.gather(*(server.finished(call) for _ in range(AT_ONCE))):
        named = result.document.get("id"), result.document.get("group_id")
        invocation.must(named == (invocation.id, invocation.group_id), "The result of this call.", result)
