"""Checks of credentials."""

from __future__ import annotations

import contextlib

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rap.common import NOWHERE, ensure_credential, ensure_served
from toolgate_conformance.servers.rap.invocation import CANCEL, CLOSE
from toolgate_conformance.servers.rap.server import RapServer

check: Registry[RapServer] = Registry()


@check(90, GOOD, "Transport")
async def without_credential(server: RapServer) -> None:
    """An invocation without a credential is refused with 401 or 403.

    Fix: Ask for the credential at the endpoint.
    """
    ensure_credential(server)
    answer = (await server.invoke(NOWHERE, {}, is_known=False)).acknowledgement()
    answer.must(answer.status in (401, 403), "Status 401.")


@check(91, MUST, "Tool Cancellation, Thread Closure")
async def notices_without_credential(server: RapServer) -> None:
    """Notices without a credential are refused as invocations are.

    Fix: Ask for the credential of the endpoint: otherwise anyone who guesses an id can cancel a call.
    """
    ensure_credential(server)
    invocation = await server.invoke(NOWHERE, {}, is_known=False)
    if invocation.acknowledgement().status not in (401, 403):
        raise SkippedError("Invocations need no credential.")
    for path in (CANCEL, CLOSE):
        with contextlib.suppress(SkippedError):
            await ensure_served(server, path)
            answer = await server.notice(path, {"thread_id": "kit", "tool_call_id": "kit"}, is_known=False)
            answer.must(answer.status in (401, 403), "Status 401.")
