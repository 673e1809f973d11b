"""One call that runs in this process: what its caller asked for, and how far it has come."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gateway.calls.preference import Preference
from gateway.calls.status import unavailable
from gateway.catalogue.published import PublishedTool
from gateway.core.errors import GatewayError, StateUnavailable
from gateway.core.model import CallKey, Invocation, ToolCall, ToolResult
from gateway.core.ports import Caller, NotDispatchedError, ServerRequest
from gateway.core.surfaces import NO_OPTIONS, CallOptions
from gateway.state.port import AWAITING_USER, DISPATCHING, DONE, REGISTERED, Record, State

SLACK_S = 5.0  # a caller waits so much beyond the timeout of a call that is ended at its timeout

Ending = ToolResult | GatewayError | None  # None: not known here; the record has it, or will have it


class CallRequest(Struct, frozen=True, kw_only=True):
    """One caller's request for a call."""

    call: ToolCall
    tool: PublishedTool
    caller: Caller
    invocation: Invocation  # its call id is still to be set
    preference: Preference
    dialect: str
    wire_version: str
    server_request: ServerRequest | None = None  # None behind any server but ours
    options: CallOptions = NO_OPTIONS
    trace: str = ""  # as in `CallMetadata`

    @property
    def request_key(self) -> str | None:
        """As in `CallOptions`, for a call without an id."""
        return None if self.call.call_id is not None else self.options.request_key

    @property
    def has_left(self) -> bool:
        """Whether its caller has left, as far as is known."""
        return self.server_request is not None and self.server_request.disconnected

    @property
    def ends_with_caller(self) -> bool:
        """Whether the call is cancelled if its caller leaves: it has no id to look for it by, and gets no 202."""
        if self.options.outlives_caller or self.call.call_id is not None or self.preference.respond_async:
            return False
        return self.tool.backend.deferred or self.options.handover is not None

    @property
    def waits_for_end(self) -> bool:
        """Whether the caller waits for as long as the tool may take."""
        preferred = self.preference.wait_s
        return not self.preference.respond_async if preferred is None else preferred >= self.invocation.timeout_s

    @property
    def patience_s(self) -> float:
        """How long the caller is kept waiting at most."""
        if not self.waits_for_end:
            return self.preference.wait_s or 0.0
        ends_in_time = not self.tool.backend.deferred or self.tool.route.cancel_on_timeout
        return self.invocation.timeout_s + (SLACK_S if ends_in_time else 0.0)


def with_preferred_timeout(invocation: Invocation, preference: Preference) -> Invocation:
    """The call with the timeout that its caller prefers if that is shorter: a later result could not be asked for."""
    if preference.wait_s is None or preference.respond_async or preference.wait_s >= invocation.timeout_s:
        return invocation
    return replace(invocation, timeout_s=preference.wait_s)


def is_answered(record: Record | None) -> bool:
    """Whether a record holds the outcome of its call, or a consent that it needs."""
    return record is not None and record.state in (AWAITING_USER, DONE)


class Execution(Struct, eq=False):
    """A call that runs here; the `DispatchGate` of its backend."""

    key: CallKey
    state: State
    task: asyncio.Task[Any] | None = None  # which it runs in
    waiter: asyncio.Future[None] | None = None  # on which its caller waits, unless the task is its request's
    ending: Ending = None  # once the task has ended
    answered: bool = False  # the outcome has come, or a consent that the call needs
    is_detached: bool = False  # its caller waits no longer, and was told that the call still runs
    is_stopped: bool = False  # `stop` has ended it

    async def wait(self, waiter: asyncio.Future[None], timeout_s: float | None) -> Ending:
        """Waits for the end; None if `timeout_s` passes or the outcome comes another way before the task ends."""
        self.waiter = waiter
        timer = None if timeout_s is None else waiter.get_loop().call_later(timeout_s, self.release)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
        self.is_detached = self.ending is None
        return self.ending

    def release(self) -> None:
        """Ends the waiting."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def stop(self, ending: Ending) -> None:
        """Ends the call in the middle: the connection to the tool server is closed."""
        self.ending, self.is_stopped = ending, True
        if self.task is not None:
            self.task.cancel()
        self.release()

    def was_stopped(self) -> bool:
        """Whether `stop` alone has cancelled the task; the cancellation is taken back, for the task may be a request's.

        `asyncio.timeout(None)` with `reschedule` does the same for 18,000 instructions a call.
        """
        return self.is_stopped and self.task is not None and self.task.uncancel() == 0

    # What its backend asks (`DispatchGate`).

    async def is_answered(self) -> bool:
        """Whether its record says that it is answered; False while the state is away."""
        with suppress(StateUnavailable):
            return is_answered(await self.state.get(self.key))
        return False

    async def on_queued(self) -> None:
        """Lets any replica send the call, should this one die while the call waits in a queue."""
        with suppress(StateUnavailable):  # then no other replica will
            await self.state.advance(self.key, (DISPATCHING,), REGISTERED)

    async def before_send(self) -> None:
        """Claims the call before it is sent. Raises NotDispatchedError; BACKEND_UNAVAILABLE while the state is away."""
        try:
            is_ours = await self.state.advance(self.key, (REGISTERED, DISPATCHING), DISPATCHING)
        except StateUnavailable as exc:
            raise unavailable() from exc
        if not is_ours:
            raise NotDispatchedError
