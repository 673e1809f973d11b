"""Runs remembered calls in this process, each in a task that goes on if its caller leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gateway.admission import NotDispatchedError
from gateway.calls.outcomes import OutcomeRecorder, Run
from gateway.calls.preference import NO_PREFERENCE, Preference
from gateway.calls.status import BROKEN, CANCELLED, OUTLASTED, PREFIX, STOPPED, CallMetadata, status_of, unavailable
from gateway.errors import GatewayError
from gateway.model import Invocation, ToolCall, ToolResult
from gateway.ports import Backend, Caller, DeferredBackend, ServerRequest
from gateway.routing import PublishedTool
from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, DONE, REGISTERED, Record, State, StateUnavailable
from gateway.surfaces import NO_TERMS, CallTerms

log = logging.getLogger("gateway.calls")

SLACK_S = 5.0  # a caller waits so much beyond the timeout of a call that is ended at its timeout
FINISH_S = 5.0  # for running calls when the process ends
# How long the acknowledgement of a dispatch is awaited after the outcome has come. Tool servers that run a tool inside
# the request may still be at work, and the framework of some ends that when the connection is closed.
ACKNOWLEDGED_WITHIN_S = 1.0

Ending = ToolResult | GatewayError | None  # None: not known here; the record has it, or will have it


class CallRequest(Struct, frozen=True, kw_only=True):
    """One caller's request for a call. Only the call id of the `invocation` is still to be set.

    `served` is None behind any server but ours.
    """

    call: ToolCall
    tool: PublishedTool
    caller: Caller
    invocation: Invocation
    preference: Preference
    dialect: str
    wire_version: str
    served: ServerRequest | None = None
    terms: CallTerms = NO_TERMS

    @property
    def request_key(self) -> str | None:
        """As in `CallTerms`, for a call without an id."""
        return None if self.call.call_id is not None else self.terms.request_key

    @property
    def has_left(self) -> bool:
        """Whether its caller has left, as far as is known."""
        return self.served is not None and self.served.disconnected

    @property
    def ends_with_caller(self) -> bool:
        """Whether the call is cancelled if its caller leaves: it has no id to look for it by, and gets no 202."""
        if self.terms.outlives_caller or self.call.call_id is not None or self.preference.respond_async:
            return False
        return self.tool.backend.deferred or self.terms.handover is not None

    @property
    def stays(self) -> bool:
        """Whether the caller waits for as long as the tool may take."""
        preferred = self.preference.wait_s
        return not self.preference.respond_async if preferred is None else preferred >= self.invocation.timeout_s

    @property
    def patience_s(self) -> float:
        """How long the caller is kept waiting at most."""
        if not self.stays:
            return self.preference.wait_s or 0.0
        ends_in_time = not self.tool.backend.deferred or self.tool.route.cancel_on_timeout
        return self.invocation.timeout_s + (SLACK_S if ends_in_time else 0.0)


def within(invocation: Invocation, preference: Preference) -> Invocation:
    """The call under the shorter deadline that its caller prefers: a later result could not be asked for."""
    if preference.wait_s is None or preference.respond_async or preference.wait_s >= invocation.timeout_s:
        return invocation
    return replace(invocation, timeout_s=preference.wait_s)


def is_answered(record: Record | None) -> bool:
    """Whether a record holds the outcome of its call, or a consent that it needs."""
    return record is not None and record.state in (AWAITING_USER, DONE)


class Execution(Struct, eq=False):
    """A call that runs here in its `task`; the `DispatchGate` of its backend.

    The caller waits on `waiter`, unless the task is its request's. `answered`: the outcome has come, or a consent that
    the call needs. `is_left`: the caller has been answered that the call still runs.
    """

    key: str
    state: State
    task: asyncio.Task[Any] | None = None
    waiter: asyncio.Future[None] | None = None
    ending: Ending = None
    answered: bool = False
    is_left: bool = False
    is_stopped: bool = False

    async def wait(self, waiter: asyncio.Future[None], timeout_s: float | None) -> Ending:
        """Waits for the end; None if `timeout_s` passes or the outcome comes another way before the task ends."""
        self.waiter = waiter
        timer = None if timeout_s is None else waiter.get_loop().call_later(timeout_s, self.release)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
        self.is_left = self.ending is None
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


class Executor:
    """Starts and stops executions, found by the keys of their calls. `callback_url` is as in `Calls`."""

    def __init__(
        self,
        state: State,
        outcomes: OutcomeRecorder,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str, str], str],
    ) -> None:
        self._state = state
        self._outcomes = outcomes
        self._backends = backends
        self._callback_url = callback_url
        self._executions: dict[str, Execution] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Binds it to the event loop, which costs a system call each time it is asked for."""
        self._loop = asyncio.get_running_loop()

    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of calls that are not answered yet."""
        executions = self._executions.values()
        return {each.task for each in executions if each.task is not None and not each.answered}

    def stop_all(self) -> None:
        """Ends all calls that run here."""
        for key in list(self._executions):
            self._stop(key, STOPPED)

    async def aclose(self) -> None:
        """Lets running calls finish for a moment, then ends them and all work in the background."""
        if running := self.tasks():
            await asyncio.wait(running, timeout=FINISH_S)
        late = [each.task for each in self._executions.values() if each.task is not None]
        self.stop_all()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*late, *self._background, return_exceptions=True)

    def execute(
        self, key: str, metadata: CallMetadata, request: CallRequest, started_at: float
    ) -> Coroutine[Any, Any, Ending]:
        """Begins to run a call; awaiting the result waits for its end as long as its caller does.

        A call that answers in the same exchange runs in the task of its request, if that can be kept from ending with
        its caller: a task of its own would cost 26,000 instructions more.
        """
        execution = self._executions[key] = Execution(key, self._state)
        running = self._run(execution, metadata, request, started_at)
        until_end = not request.tool.backend.deferred and (request.preference is NO_PREFERENCE or request.stays)
        if until_end and request.served is not None:
            execution.task = request.served.keep()
            return running
        execution.task = self._loop.create_task(running)
        timeout_s = None if until_end else self.until(started_at + request.patience_s)
        return execution.wait(self._loop.create_future(), timeout_s)

    async def _run(  # noqa: C901 - flat, because every remembered call takes this way
        self, execution: Execution, metadata: CallMetadata, request: CallRequest, started_at: float
    ) -> Ending:
        """Runs a call to its end and records how it ended."""
        key, tool = execution.key, request.tool
        backend = tool.backend
        ending: Ending = BROKEN
        try:
            try:
                if backend.deferred:
                    ending = await self._dispatch(backend, execution, metadata, request, started_at)
                else:
                    ending = await backend.call(replace(request.invocation, call_id=PREFIX + key), execution)
            except NotDispatchedError:
                ending = None
            except GatewayError as refusal:
                refusal.drop_trace()
                ending = refusal
            except Exception:
                log.exception("a call failed inside the gateway after it may have reached a tool server")
            if ending is not None:
                run = Run(backend.name, metadata.tool, metadata.begun_s, tool)
                if isinstance(ending, ToolResult):
                    if not await self._outcomes.settle(key, ending, run):
                        ending = await self._outcomes.settled(key) or ending  # it was cancelled meanwhile
                else:  # a call with an id can be repeated
                    delivered = request.call.call_id is not None or not execution.is_left
                    await self._outcomes.refuse(key, ending, run, delivered=delivered)
        except StateUnavailable:  # the caller still gets what is known here
            log.warning("the state is away while a call runs")
        except asyncio.CancelledError:
            if not execution.was_stopped():
                raise
        finally:
            if self._executions.get(key) is execution:  # else it was stopped, with an ending of its own
                del self._executions[key]
                execution.ending = ending
            if execution.waiter is not None:
                execution.release()
        return execution.ending

    async def _dispatch(
        self,
        backend: DeferredBackend,
        execution: Execution,
        metadata: CallMetadata,
        request: CallRequest,
        started_at: float,
    ) -> ToolResult | None:
        """Hands a call over; None if the outcome comes later. Raises as `DeferredBackend.dispatch`."""
        key, deferred = execution.key, metadata.deferred
        assert deferred is not None  # as in the metadata of every call of such a backend
        invocation = replace(
            request.invocation,
            call_id=PREFIX + key,
            group=metadata.group,
            config_ids=request.tool.route.config_ids,
            run=deferred.run,
        )
        result = await backend.dispatch(invocation, self._callback_url(key, deferred.run), execution)
        if result is None:
            with suppress(StateUnavailable):  # this only completes the record
                await self._state.advance(key, (DISPATCHING,), ACCEPTED)
            if deferred.cancel_after_s:
                self.cancel_in(self.until(started_at + deferred.cancel_after_s), key, backend.name, metadata)
        return result

    def cancel_in(self, seconds: float, key: str, backend: str, metadata: CallMetadata) -> None:
        """Cancels a call after so many seconds, unless it is over then or waits for its user."""
        self.in_background(self._cancel_after(seconds, key, backend, metadata))

    async def _cancel_after(self, seconds: float, key: str, backend: str, metadata: CallMetadata) -> None:
        try:
            record = await self._state.wait(key, seconds)
            if record is not None and record.state <= ACCEPTED and await self._outcomes.settle(key, OUTLASTED):
                await self.abort(key, backend, metadata, OUTLASTED)
        except StateUnavailable:
            log.warning("a call that took too long could not be cancelled", extra={"backend": backend})

    async def abort(self, key: str, backend: str, metadata: CallMetadata, ending: ToolResult) -> None:
        """Stops the execution of a call that has ended, and cancels it at its tool server if that is possible."""
        self._stop(key, ending)
        adapter = self._backends.get(backend)
        if adapter is not None and adapter.deferred and metadata.deferred is not None:
            await adapter.cancel(PREFIX + key, metadata.deferred.run, metadata.group)

    def _stop(self, key: str, ending: Ending) -> None:
        """Stops the execution of a call, if it runs here."""
        execution = self._executions.pop(key, None)
        if execution is not None:
            execution.stop(ending)

    def touched(self, key: str) -> None:
        """Looks at a call that another process has changed: if it was cancelled there, it is stopped here."""
        execution = self._executions.get(key)
        if execution is not None:
            self.in_background(self._look_at(execution))

    async def _look_at(self, execution: Execution) -> None:
        with suppress(StateUnavailable):  # then it goes on, as if the cancellation had come too late
            record = await self._state.get(execution.key)
            if status_of(record) == CANCELLED:
                self._stop(execution.key, CANCELLED)
            elif is_answered(record):
                self.answered(execution.key)

    def answered(self, key: str) -> None:
        """Ends the waiting for a call that is answered; its acknowledgement is awaited for a moment all the same."""
        execution = self._executions.get(key)
        if execution is not None:
            execution.release()
            if not execution.answered:
                execution.answered = True
                self._loop.call_later(ACKNOWLEDGED_WITHIN_S, self._hang_up, execution)

    def _hang_up(self, execution: Execution) -> None:
        if self._executions.get(execution.key) is execution:
            self._stop(execution.key, None)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Does some work until it is done, or until everything ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def until(self, deadline: float) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, deadline - self._loop.time())
