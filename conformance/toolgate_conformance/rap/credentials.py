"""Checks of credentials."""

from __future__ import annotations

import contextlib

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.rap.common import NOWHERE, ensure_credential, ensure_served
from toolgate_conformance.rap.invocation import CANCEL, CLOSE
from toolgate_conformance.rap.registry import GOOD, MUST, Registry
from toolgate_conformance.rap.server import RapServer

check = Registry()


@check(
    90,
    GOOD,
    "An invocation without a credential is refused with 401 or 403",
    page="Transport",
    remedy="Ask for the credential at the endpoint.",
)
async def without_credential(server: RapServer) -> None:
    ensure_credential(server)
    answer = (await server.invoke(NOWHERE, {}, is_known=False)).acknowledgement()
    answer.must(answer.status in (401, 403), "Status 401.")


@check(
    91,
    MUST,
    "Notices without a credential are refused as invocations are",
    page="Tool Cancellation, Thread Closure",
    remedy="Ask for the credential of the endpoint: otherwise anyone who guesses an id can cancel a call.",
)
async def notices_without_credential(server: RapServer) -> None:
    ensure_credential(server)
    invocation = await server.invoke(NOWHERE, {}, is_known=False)
    if invocation.acknowledgement().status not in (401, 403):
        raise SkippedError("Invocations need no credential.")
    for path in (CANCEL, CLOSE):
        with contextlib.suppress(SkippedError):
            await ensure_served(server, path)
            answer = await server.notice(path, {"thread_id": "kit", "tool_call_id": "kit"}, is_known=False)
            answer.must(answer.status in (401, 403), "Status 401.")
