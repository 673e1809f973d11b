"""Checks of how valid invocations are acknowledged."""

from __future__ import annotations

import asyncio

from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rap.server import RapServer

check: Registry[RapServer] = Registry()


@check(20, MUST, "Tool Invocation")
async def acknowledges(server: RapServer) -> None:
    """A valid invocation is acknowledged with 200.

    Fix: Answer 200; the body is not read.
    """
    for _, invocation in await server.observed():
        answer = invocation.acknowledgement()
        answer.must(answer.status == 200, "Status 200.")


@check(21, MUST, "Tool Invocation")
async def acknowledges_at_once(server: RapServer) -> None:
    """The acknowledgement comes at once.

    Fix: Answer first, then work in a background task.
    """
    for _, invocation in await server.accepted():
        took, answer = invocation.acked_s - invocation.sent_s, invocation.acknowledgement()
        answer.must(took <= server.waits.ack_s, f"An answer within {server.waits.ack_s:g} s, not after {took:.3f} s.")


@check(22, MUST, "Tool Invocation")
async def acknowledges_first(server: RapServer) -> None:
    """The acknowledgement does not wait for the callback.

    Fix: Post the result from a background task: a caller may answer it only after it has the acknowledgement.
    """
    acknowledged, waited = asyncio.Event(), False

    async def hold(_number: int) -> int:
        nonlocal waited
        try:
            async with asyncio.timeout(server.waits.hold_s):
                await acknowledged.wait()
        except TimeoutError:
            waited = True
        return 200

    invocation = await server.make(await server.plain(), reply=hold)
    acknowledged.set()
    answer = invocation.acknowledgement()
    answer.must(invocation.is_accepted, "Status 200.")
    answer.must(not waited, "An acknowledgement before the callback is answered.")
    await server.result(invocation)


@check(23, MUST, "Tool Invocation")
async def optional_absent(server: RapServer) -> None:
    """Optional members may be absent or null.

    Fix: Accept `call_id`, `thread_ancestors` and `user_id` both absent and null: real callers send null.
    """
    call = await server.plain()
    names = [name for name in ("call_id", "thread_ancestors", "user_id") if call.context.get(name) is None]
    await server.finished(call, without=names)
    await server.finished(call, members=dict.fromkeys(names))


@check(24, GOOD, "Tool Invocation")
async def unknown_members(server: RapServer) -> None:
    """Unknown members are ignored.

    Fix: Read the members that you know and ignore the rest: a caller may follow a newer edition.
    """
    await server.finished(await server.plain(), members={"kit_member": {"kit": [1]}})
