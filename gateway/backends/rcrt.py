"""The backend for tool servers that speak RCRT: a breadcrumb asks, another answers, a stream of events hints at it.

RCRT Universal Tool Invocation Standard 1.0 (12 November 2025). A call is never sent a second time by itself unless its
route allows it: whatever was stored may be running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from gateway import jsontext
from gateway.admission import Admission, DispatchGate, Lease
from gateway.backends.http_listing import Terms
from gateway.backends.rcrt_awaiting import Awaited, Awaiting
from gateway.backends.rcrt_client import FAILURES, AnswerError, RcrtClient, Tokens
from gateway.backends.rcrt_discovery import Discovery
from gateway.backends.rcrt_stream import EventStream
from gateway.backends.rcrt_timings import Timings
from gateway.backends.rcrt_workflows import Workflows
from gateway.backends.server import Server
from gateway.dialects import rcrt
from gateway.errors import ErrorCode, GatewayError, unavailable
from gateway.model import Invocation, Listing, ToolResult
from gateway.offload import Checker
from gateway.ports import Outcomes
from gateway.transport import TransportError
from gateway.wire import Headers

log = logging.getLogger("gateway.backends")

# A server takes 2 MiB, but a broker loses an event above 1 MiB, and the runner would never hear of the request. The
# rest is what the server adds.
MAX_REQUEST_BYTES = 1024 * 1024 - 16 * 1024
TOO_LARGE = "The arguments are larger than this tool can be sent."
# Statuses below 500 after which the breadcrumb may exist: none at all, an odd 200, a proxy that waited in vain, and a
# key that somebody has used before us.
UNCLEAR = (0, 200, 408, 409)


class RcrtBackend:
    """One workspace of one RCRT server, the one of `admission`, which is there for storing requests. Sizes in bytes.

    `on_change` is called when tools may have changed.
    """

    deferred: Literal[True] = True
    dialect = "rcrt"
    receiver = None

    def __init__(
        self,
        name: str,
        admission: Admission[Server],
        *,
        tokens: Tokens,
        outcomes: Outcomes,
        checker: Checker,
        workspace: str,
        toolkit: str,
        max_response_bytes: int,
        on_change: Callable[[], None],
        wall_clock: Callable[[], float],
        request_schema: rcrt.RequestSchema,
        return_to_llm: bool,
        cleanup: bool,
        timings: Timings,
        lists: Terms = Terms(),  # noqa: B008 - frozen
    ) -> None:
        self.name = name
        self._admission = admission
        self._server = server = admission.replicas[0].target
        self._workspace = workspace
        self._wall_clock = wall_clock
        self._request_schema: rcrt.RequestSchema = request_schema
        self._return_to_llm = return_to_llm
        self._on_change = on_change
        self._timings = timings
        self._change_due: asyncio.TimerHandle | None = None
        self._workflows = Workflows(timings.workflow_s)
        self._client = RcrtClient(server, tokens, checker, read_s=timings.read_s, max_response_bytes=max_response_bytes)
        self._discovery = Discovery(
            name, self._client, workspace=workspace, toolkit=toolkit, timings=timings, lists=lists
        )
        self._stream = EventStream(
            name,
            server,
            tokens,
            on_event=self._heard,
            on_gap=lambda: self._awaiting.nudge(),
            max_event_bytes=max_response_bytes,
            timings=timings,
        )
        self._awaiting = Awaiting(name, self._client, self._stream, outcomes, cleanup=cleanup, timings=timings)

    @property
    def stream_up(self) -> bool:
        """Whether events come in, as far as anybody can tell."""
        return self._stream.is_up

    @property
    def open_calls(self) -> int:
        """How many calls this process looks for an outcome of."""
        return len(self._awaiting)

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        """Stores the request. None: its outcome goes to `Outcomes`, also that it was not stored after all.

        Raises GatewayError when it provably is not: TOOL_NOT_FOUND, INVALID_ARGUMENTS for a configuration that may
        not be used, PAYLOAD_TOO_LARGE, BACKEND_UNAVAILABLE; and what its `gate` raises.
        """
        deadline = time.monotonic() + invocation.timeout_s
        body = self._encode(invocation)
        call = Awaited(call_id=invocation.call_id, run=invocation.run, idempotent=invocation.idempotent)
        call.place = await self._workflows.enter(invocation.tool.remote_id, invocation.timeout_s, gate)
        with contextlib.ExitStack() as unless_sent:
            if call.place is not None:
                unless_sent.callback(call.place.leave)
            tool = invocation.tool.remote_id
            lease = self._admission.enter(tool) or await self._admission.wait(tool, deadline - time.monotonic(), gate)
            try:
                await self._prepare(tool)
                unless_sent.pop_all()
                is_stored = await self._store(call, body, invocation.headers, lease, deadline)
            finally:
                self._admission.leave(lease)
        if not is_stored:  # a replica that dies meanwhile leaves a call that may have run, not one that is waited for
            await self._awaiting.make_sure(call, self._look_up, within_s=deadline - time.monotonic())
        return None

    async def _prepare(self, tool: str) -> None:
        """Sees to it that the tool is there and that the stream is open, or was tried. Raises TOOL_NOT_FOUND."""
        if not await self._discovery.has(tool):
            self._change()
            raise GatewayError(ErrorCode.TOOL_NOT_FOUND, "The tool server no longer has this tool.")
        self._stream.start()
        await self._stream.tried()

    def _encode(self, invocation: Invocation) -> bytes:
        ends = datetime.fromtimestamp(self._wall_clock(), UTC) + timedelta(seconds=self._timings.request_ttl_s)
        request = rcrt.encode_request(
            invocation,
            schema=self._request_schema,
            workspace=self._workspace,
            ttl=ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            return_to_llm=self._return_to_llm,
            config_id=rcrt.config_of(invocation),
        )
        body = jsontext.encode(request)
        if len(body) > MAX_REQUEST_BYTES:
            raise GatewayError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_LARGE)
        return body

    async def _store(self, call: Awaited, body: bytes, headers: Headers, lease: Lease[Server], deadline: float) -> bool:
        """Begins to look for the outcome, then creates the request's breadcrumb; False if it may not be there.

        Raises GatewayError when it is not.
        """
        create = partial(self._create, call.request_id, body, headers, lease, deadline)
        crumb_id = None
        self._awaiting.add(call)
        self._stream.expect_echo(call.request_id)
        try:
            crumb_id = await create(key=call.request_id)
            if crumb_id is None and call.idempotent:
                with contextlib.suppress(GatewayError):  # whatever becomes of it, the first may be stored
                    crumb_id = await create(key=f"{call.request_id}-2")  # a key is good for one try
        except GatewayError:
            self._awaiting.forget(call)
            raise
        finally:
            self._stream.time_echo(call.request_id, stored=crumb_id is not None)
        self._awaiting.created(call.request_id, crumb_id or "")
        return crumb_id is not None

    async def _create(
        self, request_id: str, body: bytes, headers: Headers, lease: Lease[Server], deadline: float, key: str
    ) -> str | None:
        """The id of the new breadcrumb; None when it cannot be told whether there is one."""
        timeout_s = min(self._timings.create_s, deadline - time.monotonic())
        if timeout_s <= 0:
            raise unavailable("its time was up before it was stored")
        try:
            created: str | None = await self._client.create(body, key, timeout_s, headers)
            lease.answered = True
            return created
        except TransportError as exc:
            self._judge(lease, exc, timeout_s)
            if not exc.sent:
                raise unavailable(f"{exc.kind}: {exc}") from exc
            status, reason = 0, f"{exc.kind}: {exc}"
        except AnswerError as exc:
            self._judge(lease, exc, timeout_s)
            status, reason = exc.status, str(exc)
        except GatewayError as exc:  # no token, for a reason
            self._judge(lease, exc.__cause__, timeout_s)
            raise
        if status not in UNCLEAR and status < 500:
            raise self._refused(status, reason)
        log.warning("a request may not have been stored", extra={"backend": self.name, "reason": reason})
        try:
            crumb_id = await self._look_up(request_id)
        except FAILURES:
            return None
        if crumb_id is None and status in (500, 503):  # the server has given up, and left nothing behind
            raise unavailable(reason)
        return crumb_id

    def _judge(self, lease: Lease[Server], failure: BaseException | None, given_s: float) -> None:
        """Says whether a failure was the server's; no tool runs while it stores a request."""
        match failure:
            case TransportError() if self._server.is_to_blame(failure, given_s):
                lease.failed(str(failure.kind))
            case AnswerError(status=status) if 400 <= status < 500:
                lease.answered = True
            case AnswerError(status=status):
                lease.failed(f"status {status}")

    async def _look_up(self, request_id: str) -> str | None:
        """The id of a request's breadcrumb by its tag, which is ours alone."""
        schema = rcrt.REQUEST_SCHEMAS[self._request_schema]
        for document in await self._client.find(schema, rcrt.OWN_TAG + request_id, limit=1):
            if (crumb := rcrt.decode_crumb(document)) is not None:
                return crumb.id
        return None

    def _refused(self, status: int, reason: str) -> GatewayError:
        if status == 413:
            return GatewayError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_LARGE, detail=reason)
        if status in (401, 403):
            log.warning("a tool server does not accept our credential", extra={"backend": self.name})
        return unavailable(reason)

    async def resume(self, call_id: str, run: str) -> None:
        """Looks for the outcome of a call another replica stored."""
        self._stream.start()
        self._awaiting.resume(call_id, run)

    async def cancel(self, call_id: str, run: str, group: str) -> None:
        """Stops looking, unless the call holds a place. A runner cannot be told; what it brings later is ignored."""
        self._awaiting.cancel(call_id)

    async def list_tools(self) -> Listing:
        """Reads the workspace's tools, and from then on listens for their changes. Raises BACKEND_UNAVAILABLE."""
        self._stream.start()
        listing = await self._discovery.list_tools()
        self._admission.vouch_for(self._admission.replicas[0])
        return listing

    async def challenge_status(self, check_url: str) -> str:
        """RCRT has no challenges."""
        return "failed"

    async def aclose(self) -> None:
        if self._change_due is not None:
            self._change_due.cancel()
        await self._stream.aclose()
        await self._awaiting.aclose()
        await self._admission.aclose()
        await self._server.pool.aclose()

    def _heard(self, crumb: rcrt.Crumb) -> None:
        if self._discovery.concerns(crumb):
            self._change()
        self._awaiting.heard(crumb)

    def _change(self) -> None:
        """Tells of a change, once for all that come close together."""
        if self._change_due is None:
            self._change_due = asyncio.get_running_loop().call_later(self._timings.change_s, self._tell_of_change)

    def _tell_of_change(self) -> None:
        self._change_due = None
        self._on_change()
