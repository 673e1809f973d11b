"""The backend for tool servers that take a call at once and post its result to a callback URL later.

Reactive Agent Protocol: Toolsets, Tool Invocation, Transport. Callbacks are read in `callback_receiver`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from codecs import BOM_UTF8
from collections.abc import Awaitable, Mapping
from typing import Literal

from msgspec.structs import replace

from gateway.core.errors import UNAVAILABLE, ErrorCode, unavailable
from gateway.core.model import SINGLE_CALL_GROUP, CallKey, Invocation, Listing, Rejected, ToolFailure, ToolResult
from gateway.core.ports import DispatchGate
from gateway.net.client import Kind, Origin, Reply, TransportError
from gateway.protocols.common import replies
from gateway.protocols.rap import messages as callback
from gateway.protocols.rap import toolset as callback_toolset
from gateway.protocols.rap.notices import Notices
from gateway.protocols.rap.receiver import CallbackReceiver
from gateway.protocols.rap.settings import CallbackBackendSettings
from gateway.protocols.rap.targets import CallbackTargets, Target
from gateway.upstream.admission import Lease
from gateway.upstream.exchange import BROKEN, HttpExchange, check_sent, note_broken_off, note_status
from gateway.upstream.list_reader import ListReader
from gateway.upstream.replica_url import USER_AGENT, BackendContext, Server, open_pool

log = logging.getLogger("gateway.backends")

ACK_TIMEOUT_S = 10.0  # an acknowledgement comes before any work (Tool Invocation, Response)


class CallbackBackend:
    """One toolset, or several replicas of it. Admission limits how many calls are handed over at once."""

    deferred: Literal[True] = True
    dialect = "callback"
    max_exchange_s = ACK_TIMEOUT_S
    open_calls = 0  # it is the tool server that reports outcomes
    stream_up = None

    def __init__(self, name: str, settings: CallbackBackendSettings, context: BackendContext) -> None:
        self.name = name
        self._admission = context.admission
        self._on_change = context.on_change
        self._max_response_bytes = settings.max_response_bytes
        self._exchange = HttpExchange(name, settings, context, callback_toolset.request_toolset())
        self._credentials = self._exchange.credentials
        self._reader = ListReader(callback_toolset.read_toolset, name, settings, context.lists)
        others = {Origin.parse(url): open_pool(settings, url) for url in settings.allowed_origins}
        self._targets = CallbackTargets(context.admission.replicas, others)
        self._endpoints: Mapping[Server, Target] = {}  # where each takes calls; known once there is a toolset
        self._notices = Notices(name, self._targets, self._credentials, context.count_dropped)
        self.receiver = CallbackReceiver(name, context.outcomes, context.checker, self._notices)
        self._warned: set[int] = set()  # statuses of acknowledgements

    # Discovery.

    async def list_tools(self) -> Listing:
        """Asks for the toolset; one that is not valid has no tools. Raises BACKEND_UNAVAILABLE."""
        return await self._exchange.list_tools(self._read_toolset)

    async def _read_toolset(self, reply: Reply) -> Listing:
        text = reply.body.removeprefix(BOM_UTF8)
        del reply
        endpoint, listing = await self._reader.read(text)
        self._endpoints = self._targets.endpoints(endpoint)
        if not self._endpoints and listing.tools:
            reason = "its endpoint is not a URL at its own origin or one of allowed_origins"
            return Listing(rejected=(Rejected(id=self.name, reason=reason),))
        return listing

    # Calls.

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        """Hands a call over, once. If it may have arrived, the tool may call back: only a clear refusal is a result.

        Raises GatewayError: BACKEND_UNAVAILABLE while nothing was sent; and what its `gate` raises.
        """
        timeout_s = min(ACK_TIMEOUT_S, invocation.timeout_s)
        tool = invocation.tool.remote_id
        conversation = "" if invocation.group.startswith(SINGLE_CALL_GROUP) else invocation.group
        lease = self._admission.enter(tool, conversation)
        if lease is None:
            begun = time.monotonic()
            lease = await self._admission.wait(tool, invocation.timeout_s, gate, conversation)
            timeout_s = min(timeout_s, max(begun + invocation.timeout_s - time.monotonic(), 0.001))
        try:
            reply = await self._post(lease, invocation, callback_url, timeout_s)
            if not 200 <= reply.status < 300 and gate is not None and await gate.is_answered():
                lease.answered = True
                return None
            note_status(lease, reply.status)
            result = self._read_acknowledgement(reply, invocation)
            if result is not None:
                result = replace(result, status=reply.status)
                log.info("a tool server did not accept a call", extra={"backend": self.name, "status": reply.status})
            return result
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
            check_sent(exc)
            extra = {"backend": self.name, "kind": str(exc.kind)}
            log.warning("a tool server did not acknowledge a call, which may run all the same", extra=extra)
            return None
        finally:
            self._admission.leave(lease)

    async def _post(self, lease: Lease[Server], invocation: Invocation, callback_url: str, timeout_s: float) -> Reply:
        """Posts an invocation; what provably was not sent goes to the next replica, in time. Raises TransportError."""
        run_id, deadline = callback.invocation_id(invocation.key, invocation.run), time.monotonic() + timeout_s
        while True:
            self._targets.note_sent(run_id, lease.replica.target)
            try:
                return await self._post_to(lease.replica.target, invocation, callback_url, timeout_s)
            except TransportError as exc:
                timeout_s = deadline - time.monotonic()
                if exc.sent or exc.kind is Kind.INVALID or timeout_s <= 0:
                    raise
                if not self._admission.move(lease, reason=str(exc.kind), counts=exc.kind is not Kind.BUSY):
                    raise

    def _post_to(self, server: Server, invocation: Invocation, callback_url: str, timeout_s: float) -> Awaitable[Reply]:
        if server not in self._endpoints:
            raise unavailable("it has no valid toolset")
        pool, target = self._endpoints[server]
        credentials = self._credentials(invocation.principal)
        return pool.request(
            b"POST",
            target,
            (USER_AGENT, *callback.INVOCATION_HEADERS, *invocation.headers, *credentials),
            callback.encode_invocation(invocation, callback_url),
            timeout_s=timeout_s,
            max_body=self._max_response_bytes,
        )

    def _read_acknowledgement(self, reply: Reply, invocation: Invocation) -> ToolResult | None:
        """The result that a reply means; None for a 2xx, which takes the call (Tool Invocation, Error Responses)."""
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
                message = "The tools of the tool server have changed. List them again before you call."
            case status if status >= 500:
                message = (
                    "The tool server failed to accept the call; the tool may have run."  # a proxy may have said so
                )
            case status if status >= 400:
                message = "The tool server did not accept the call."
            case _:
                return BROKEN
        return ToolResult(failure=ToolFailure(message=message))

    async def resume(self, key: CallKey, run: str) -> None:
        """Does nothing: the protocol has no way to ask, the tool server calls back by itself."""

    async def cancel(self, key: CallKey, run: str, group: str) -> None:
        self._notices.cancel(callback.invocation_id(key, run), group)

    async def challenge_status(self, check_url: str) -> str:
        return "failed"  # whether the user has consented shows in the outcome of the call

    async def aclose(self) -> None:
        """Gives notices under way a moment, then closes every connection."""
        await self._notices.aclose()
        await self._exchange.aclose()
        await self._targets.aclose()
