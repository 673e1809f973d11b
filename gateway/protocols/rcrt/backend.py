"""The backend for tool servers that speak RCRT: a breadcrumb asks, another answers, a stream of events hints at it.

RCRT Universal Tool Invocation Standard 1.0 (12 November 2025). A stored request may be running, so it is sent a second
time only if its route is idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError, unavailable
from gateway.core.model import CallKey, Invocation, Listing, ToolFailure, ToolResult
from gateway.core.ports import DispatchGate
from gateway.core.wire import Headers
from gateway.net.client import TransportError
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.protocols.rcrt.answers import FAILURES, AnswerError
from gateway.protocols.rcrt.client import RcrtClient, Timings
from gateway.protocols.rcrt.discovery import Discovery
from gateway.protocols.rcrt.pending import PendingCall, PendingCalls
from gateway.protocols.rcrt.settings import RcrtBackendSettings
from gateway.protocols.rcrt.stream import BreadcrumbStream
from gateway.upstream.admission import Lease
from gateway.upstream.exchange import check_sent, note_broken_off
from gateway.upstream.replica_url import BackendContext, Server

log = logging.getLogger("gateway.backends")

# A server takes 2 MiB, but a broker loses an event above 1 MiB, and the runner would never hear of the request. The
# rest is what the server adds.
MAX_REQUEST_BYTES = 1024 * 1024 - 16 * 1024
TOO_LARGE = "The arguments are larger than this tool can be sent."
# Statuses below 500 after which the breadcrumb may exist: none at all, an odd 200, a proxy that waited in vain, and a
# key that was used before.
UNCLEAR = (0, 200, 408, 409)
FINAL = (400, 415, 422)  # of a server that does not take this breadcrumb, now or later
NOT_ACCEPTED = ToolFailure(message="The tool server did not accept the call.")


class NotAcceptedError(Exception):
    """A request that was refused for good; the text is for our log."""


class RcrtBackend:
    """One workspace of one RCRT server. Admission limits how many requests are stored at once."""

    deferred: Literal[True] = True
    dialect = "rcrt"
    max_exchange_s = Timings().create_s
    receiver = None

    def __init__(
        self, name: str, settings: RcrtBackendSettings, context: BackendContext, timings: Timings | None = None
    ) -> None:
        """`timings` are for tests; by default they follow from the context."""
        self.name = name
        self._settings = settings
        self._admission = context.admission
        server = context.admission.replicas[0].target
        self._on_change = context.on_change
        self._timings = timings = timings or Timings(watch_s=context.pending_s)
        self._change_due: asyncio.TimerHandle | None = None
        self._client = client = RcrtClient(name, settings, server, context.checker, timings)
        self._discovery = Discovery(client, settings, context.lists)
        self._stream = BreadcrumbStream(client, on_event=self._take_event, on_gap=lambda: self._pending.nudge())
        self._pending = PendingCalls(client, self._stream, context.outcomes, cleanup=settings.cleanup)

    @property
    def stream_up(self) -> bool:
        return self._stream.is_up

    @property
    def open_calls(self) -> int:
        return len(self._pending)

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        """Stores the request. None: its outcome goes to `Outcomes`, also that it was not stored after all.

        A result says that the server refused the request for good.

        Raises GatewayError when it provably is not: TOOL_NOT_FOUND, INVALID_ARGUMENTS for a configuration that may
        not be used, PAYLOAD_TOO_LARGE, BACKEND_UNAVAILABLE; and what its `gate` raises.
        """
        deadline = time.monotonic() + invocation.timeout_s
        body = self._encode(invocation)
        tool = invocation.tool.remote_id
        call = PendingCall(
            key=invocation.key,
            run=invocation.run,
            idempotent=invocation.idempotent,
            is_workflow=tool == rcrt.WORKFLOW,
        )
        with contextlib.ExitStack() as unless_sent:
            unless_sent.callback(self._pending.free_place, call)
            if call.is_workflow:
                await self._pending.take_place(call, invocation.timeout_s, gate)
            lease = self._admission.enter(tool) or await self._admission.wait(tool, deadline - time.monotonic(), gate)
            try:
                if not await self._discovery.has(tool):
                    self._note_change()
                    raise GatewayError(ErrorCode.TOOL_NOT_FOUND, "The tool server no longer has this tool.")
                self._stream.start()
                await self._stream.tried()
                unless_sent.pop_all()
                is_stored = await self._store(call, body, invocation.headers, lease, deadline)
            except NotAcceptedError as exc:
                log.warning("a tool server did not accept a call", extra={"backend": self.name, "reason": str(exc)})
                return ToolResult(failure=NOT_ACCEPTED)
            finally:
                self._admission.leave(lease)
        if not is_stored:  # should this replica die meanwhile, the call counts as one that may have run
            await self._pending.make_sure(call, within_s=deadline - time.monotonic())
        return None

    def _encode(self, invocation: Invocation) -> bytes:
        ends = datetime.fromtimestamp(time.time(), UTC) + timedelta(seconds=self._timings.request_ttl_s)
        request = rcrt.encode_request(
            invocation,
            schema=self._settings.request_schema,
            workspace=self._settings.workspace,
            ttl=ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            return_to_llm=self._settings.return_to_llm,
            config_id=rcrt.config_of(invocation),
        )
        body = jsontext.encode(request)
        if len(body) > MAX_REQUEST_BYTES:
            raise GatewayError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_LARGE)
        return body

    async def _store(
        self, call: PendingCall, body: bytes, headers: Headers, lease: Lease[Server], deadline: float
    ) -> bool:
        """Begins to look for the outcome, then stores the request; False if it may not be stored.

        Raises GatewayError when it is not, and NotAcceptedError.
        """
        create = partial(self._create, call.request_id, body, headers, lease, deadline)
        crumb_id = None
        self._pending.add(call)
        self._stream.expect_echo(call.request_id)
        try:
            crumb_id = await create(key=call.request_id)
            if crumb_id is None and call.idempotent:
                # The first may be stored, even if this one is refused.
                with contextlib.suppress(GatewayError, NotAcceptedError):
                    crumb_id = await create(key=f"{call.request_id}-2")  # a key is good for one try
        except (GatewayError, NotAcceptedError):
            self._pending.forget(call)
            raise
        finally:
            self._stream.time_echo(call.request_id, stored=crumb_id is not None)
        self._pending.created(call.request_id, crumb_id or "")
        return crumb_id is not None

    async def _create(
        self, request_id: str, body: bytes, headers: Headers, lease: Lease[Server], deadline: float, key: str
    ) -> str | None:
        """The id of the new breadcrumb; None when there may be none. Raises GatewayError and NotAcceptedError."""
        timeout_s = min(self._timings.create_s, deadline - time.monotonic())
        if timeout_s <= 0:
            raise unavailable("its time was up before it was stored")
        try:
            created: str | None = await self._client.create(body, key, timeout_s, headers)
            lease.answered = True
            return created
        except TransportError as exc:
            note_broken_off(lease, exc, timeout_s, runs_tool=False)
            check_sent(exc)
            status, reason = 0, f"{exc.kind}: {exc}"
        except AnswerError as exc:
            _note_answer(lease, exc)
            status, reason = exc.status, str(exc)
        except GatewayError as exc:  # there is no token
            if isinstance(exc.__cause__, AnswerError):
                _note_answer(lease, exc.__cause__)
            elif isinstance(exc.__cause__, TransportError):
                note_broken_off(lease, exc.__cause__, timeout_s, runs_tool=False)
            raise
        if status not in UNCLEAR and status < 500:
            raise self._refused(status, reason)
        log.warning("a request may not have been stored", extra={"backend": self.name, "reason": reason})
        try:
            crumb_id = await self._client.find_request(request_id)
        except FAILURES:
            return None
        if crumb_id is None and status in (500, 503):  # the server has given up, and left nothing behind
            raise unavailable(reason)
        return crumb_id

    def _refused(self, status: int, reason: str) -> GatewayError | NotAcceptedError:
        if status in FINAL:
            return NotAcceptedError(reason)
        if status == 413:
            return GatewayError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_LARGE, detail=reason)
        if status in (401, 403):
            log.warning("a tool server does not accept our credential", extra={"backend": self.name})
        return unavailable(reason)

    async def resume(self, key: CallKey, run: str) -> None:
        self._stream.start()
        self._pending.resume(key, run)

    async def cancel(self, key: CallKey, run: str, group: str) -> None:
        """Stops looking, unless the call is a workflow. Runners have no way to stop; a later response is ignored."""
        self._pending.cancel(key)

    async def list_tools(self) -> Listing:
        """Reads the workspace's tools, and from then on listens for their changes. Raises BACKEND_UNAVAILABLE."""
        self._stream.start()
        listing = await self._discovery.list_tools()
        self._admission.replicas[0].breaker.note_alive()
        return listing

    async def challenge_status(self, check_url: str) -> str:
        return "failed"  # RCRT has no challenges

    async def aclose(self) -> None:
        if self._change_due is not None:
            self._change_due.cancel()
        await self._stream.aclose()
        await self._pending.aclose()
        await self._admission.aclose()
        await self._client.server.pool.aclose()

    def _take_event(self, crumb: rcrt.Breadcrumb) -> None:
        if self._discovery.concerns(crumb):
            self._note_change()
        self._pending.take_event(crumb)

    def _note_change(self) -> None:
        """Reports a change of tools, once for all that come close together."""
        if self._change_due is None:
            self._change_due = asyncio.get_running_loop().call_later(self._timings.change_s, self._report_change)

    def _report_change(self) -> None:
        self._change_due = None
        self._on_change()


def _note_answer(lease: Lease[Server], exc: AnswerError) -> None:
    """Reports an answer that is not a good 200 to the breakers; no tool runs meanwhile."""
    if 400 <= exc.status < 500:
        lease.answered = True
    else:
        lease.failed(f"status {exc.status}")
