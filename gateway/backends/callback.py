"""The backend for tool servers that take a call at once and call back with what becomes of it.

Reactive Agent Protocol: Toolsets, Tool Invocation, Transport. Callbacks are taken in `callback_receiving`. URLs that a
tool server names are posted to only at origins the operator has named.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from gateway.admission import Admission, DispatchGate, Lease
from gateway.backends.callback_discovery import ToolsetReader, place_of
from gateway.backends.callback_notices import Notices
from gateway.backends.callback_receiving import BROKEN, Receiving
from gateway.backends.credentials import Credentials
from gateway.backends.http_listing import Terms
from gateway.backends.server import USER_AGENT, Server, note_broken_off, note_status
from gateway.dialects import callback, callback_toolset, replies
from gateway.errors import UNAVAILABLE, ErrorCode, unavailable
from gateway.model import Invocation, Listing, Rejected, ToolFailure, ToolResult
from gateway.offload import Checker
from gateway.ports import Outcomes
from gateway.transport import Origin, Pool, Reply, TransportError

log = logging.getLogger("gateway.backends")

ACK_TIMEOUT_S = 10.0  # an acknowledgement comes before any work (Tool Invocation, Response)


class CallbackBackend:
    """One toolset behind one base URL, the one of `admission`, which is there for handing calls over.

    `pools` holds its origin and all others that the toolset may name; whatever else it names is refused.
    `outcomes` is where results go, `on_change` is called when its tools may have changed.
    """

    deferred: Literal[True] = True
    dialect = "callback"
    open_calls = 0  # it is the tool server that calls back
    stream_up = None

    def __init__(
        self,
        name: str,
        admission: Admission[Server],
        pools: Mapping[Origin, Pool],
        *,
        credentials: Credentials,
        outcomes: Outcomes,
        checker: Checker,
        on_change: Callable[[], None],
        max_response_bytes: int,
        lists: Terms = Terms(),  # noqa: B008 - frozen
    ) -> None:
        self.name = name
        self._pools = pools
        self._admission = admission
        self._server = admission.replicas[0].target
        self._credentials = credentials
        self._on_change = on_change
        self._max_response_bytes = max_response_bytes
        self._reader = ToolsetReader(name, self._server, credentials, lists)
        self._endpoint: tuple[Pool, bytes] | None = None  # known once there is a toolset
        self._notices = Notices(name, self._server, pools, credentials)
        self.receiver = Receiving(name, outcomes, checker, self._notices)
        self._warned: set[int] = set()  # of these statuses

    # Discovery.

    async def list_tools(self) -> Listing:
        """Asks for the toolset; of one that is not valid there are no tools. Raises BACKEND_UNAVAILABLE."""
        try:
            toolset = await self._reader.ask()
        except callback_toolset.ToolsetError as exc:
            return self._without_tools(str(exc))
        endpoint = place_of(toolset.endpoint, self._pools)
        if endpoint is None:
            return self._without_tools("its endpoint is not a URL at its own origin or one of allowed_origins")
        self._endpoint = endpoint
        self._admission.vouch_for(self._admission.replicas[0])
        return toolset.listing

    def _without_tools(self, reason: str) -> Listing:
        self._endpoint = None
        return Listing(rejected=(Rejected(id=self.name, reason=reason),))

    # Calls.

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        """Posts an invocation, once. Whatever may have arrived may call back, so only a clear refusal is an outcome.

        Raises GatewayError: BACKEND_UNAVAILABLE while nothing was sent; and what its `gate` raises.
        """
        timeout_s = min(ACK_TIMEOUT_S, invocation.timeout_s)
        tool = invocation.tool.remote_id
        lease = self._admission.enter(tool)
        if lease is None:
            begun = time.monotonic()
            lease = await self._admission.wait(tool, invocation.timeout_s, gate)
            timeout_s = min(timeout_s, max(begun + invocation.timeout_s - time.monotonic(), 0.001))
        try:
            return await self._hand_over(lease, invocation, callback_url, timeout_s, gate)
        finally:
            self._admission.leave(lease)

    async def _hand_over(
        self,
        lease: Lease[Server],
        invocation: Invocation,
        callback_url: str,
        timeout_s: float,
        gate: DispatchGate | None,
    ) -> ToolResult | None:
        """Of a call that was answered by a callback before, nothing counts that is said of it here."""
        try:
            reply = await self._post(invocation, callback_url, timeout_s)
        except asyncio.CancelledError:
            if gate is not None and gate.answered:
                lease.answered = True
                log.info("a tool server answered a call and did not acknowledge it", extra={"backend": self.name})
            raise
        except TransportError as exc:
            if exc.sent and gate is not None and await gate.is_answered():
                lease.answered = True
                return None
            note_broken_off(lease, exc, timeout_s)
            if not exc.sent:
                raise unavailable(f"{exc.kind}: {exc}") from exc
            extra = {"backend": self.name, "kind": str(exc.kind)}
            log.warning("a tool server did not acknowledge a call, which may run all the same", extra=extra)
            return None
        if not 200 <= reply.status < 300 and gate is not None and await gate.is_answered():
            lease.answered = True
            return None
        note_status(lease, reply.status)
        result = self._acknowledged(reply, invocation)
        if result is not None:
            log.info("a tool server did not take a call", extra={"backend": self.name, "status": reply.status})
        return result

    def _post(self, invocation: Invocation, callback_url: str, timeout_s: float) -> Awaitable[Reply]:
        if self._endpoint is None:
            raise unavailable("it has no valid toolset")
        pool, target = self._endpoint
        credentials = self._credentials.headers(invocation.principal)
        return pool.request(
            b"POST",
            target,
            (USER_AGENT, *callback.INVOCATION_HEADERS, *invocation.headers, *credentials),
            callback.encode_invocation(invocation, callback_url),
            timeout_s=timeout_s,
            max_body=self._max_response_bytes,
        )

    def _acknowledged(self, reply: Reply, invocation: Invocation) -> ToolResult | None:
        """What an acknowledgement means: any 2xx is one, and all else an outcome (Tool Invocation, Error Responses)."""
        match reply.status:
            case 200:
                return None
            case status if 200 < status < 300:
                if status not in self._warned:
                    self._warned.add(status)
                    message = f"a tool server acknowledges calls with {status} instead of 200"
                    log.warning(message, extra={"backend": self.name})
                return None
            case 429 | 503:
                return replies.busy(reply, invocation)
            case 401 | 403:
                log.warning("a tool server does not accept our credential", extra={"backend": self.name})
                return ToolResult(failure=ToolFailure(message=UNAVAILABLE, code=ErrorCode.BACKEND_UNAVAILABLE))
            case 409:  # what earlier editions of Transport answer to a stale toolset
                self._on_change()
                message = "The tools of the tool server have changed; look at them again before you call."
            case status if status >= 500:
                message = "The tool server failed to take the call; the tool may have run."  # a proxy may have said so
            case status if status >= 400:
                message = "The tool server did not take the call."
            case _:
                return BROKEN
        return ToolResult(failure=ToolFailure(message=message))

    async def resume(self, call_id: str, run: str) -> None:
        """Does nothing: the protocol has no way to ask, the tool server calls back by itself."""

    async def challenge_status(self, check_url: str) -> str:
        """Knows nothing: whether the user has consented shows in the outcome of the call."""
        return "failed"

    # Notices.

    async def cancel(self, call_id: str, run: str, group: str) -> None:
        """Tells the tool server that nobody waits for a call any more, without waiting for it to hear."""
        self._notices.cancel(callback.invocation_id(call_id, run), group)

    async def aclose(self) -> None:
        """Gives notices under way a moment, then closes every connection."""
        await self._notices.aclose()
        await self._admission.aclose()
        for pool in self._pools.values():
            await pool.aclose()
