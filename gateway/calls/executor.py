"""Runs remembered calls in this process, each in a task that goes on if its caller leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from gateway.calls.execution import CallRequest, Ending, Execution, is_answered
from gateway.calls.outcomes import OutcomeRecorder, Run
from gateway.calls.preference import NO_PREFERENCE
from gateway.calls.records import CallMetadata
from gateway.calls.status import BROKEN, CANCELLED, OUTLASTED, STOPPED, WITHDRAWN, status_of
from gateway.core.errors import GatewayError, StateUnavailable
from gateway.core.model import CallKey, ToolResult, public_id
from gateway.core.ports import Backend, DeferredBackend, NotDispatchedError
from gateway.state.port import ACCEPTED, DISPATCHING, State

log = logging.getLogger("gateway.calls")

FINISH_S = 5.0  # for running calls when the process ends
# How long the acknowledgement of a dispatch is awaited after the outcome has come. Tool servers that run a tool inside
# the request may still be at work, and the framework of some ends that when the connection is closed.
ACKNOWLEDGED_WITHIN_S = 1.0


class Executor:
    """Starts and stops executions, found by the keys of their calls. `callback_url` is as in `Calls`."""

    def __init__(
        self,
        state: State,
        outcomes: OutcomeRecorder,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[CallKey, str], str],
    ) -> None:
        self._state = state
        self._outcomes = outcomes
        self._backends = backends
        self._callback_url = callback_url
        self._executions: dict[CallKey, Execution] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Binds it to the event loop, which costs a system call each time it is asked for."""
        self._loop = asyncio.get_running_loop()

    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of calls that are not answered yet."""
        executions = self._executions.values()
        return {execution.task for execution in executions if execution.task is not None and not execution.answered}

    def stop_all(self) -> None:
        """Ends all calls that run here."""
        for key in list(self._executions):
            self._stop(key, STOPPED)

    async def aclose(self) -> None:
        """Lets running calls finish for a moment, then ends them and all work in the background."""
        if running := self.tasks():
            await asyncio.wait(running, timeout=FINISH_S)
        late = [execution.task for execution in self._executions.values() if execution.task is not None]
        self.stop_all()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*late, *self._background, return_exceptions=True)

    def execute(
        self, key: CallKey, metadata: CallMetadata, request: CallRequest, started_at: float
    ) -> Coroutine[Any, Any, Ending]:
        """Begins to run a call; awaiting the result waits for its end as long as its caller does.

        A call that answers in the same exchange runs in the task of its request, if that can be kept from ending with
        its caller: a task of its own would cost 26,000 instructions more.
        """
        execution = self._executions[key] = Execution(key, self._state)
        running = self._run(execution, metadata, request, started_at)
        until_end = not request.tool.backend.deferred and (request.preference is NO_PREFERENCE or request.waits_for_end)
        if until_end and request.server_request is not None:
            execution.task = request.server_request.keep()
            return running
        execution.task = self._loop.create_task(running)
        if request.server_request is not None:
            request.server_request.lend_body(execution.task)
        timeout_s = None if until_end else self.seconds_until(started_at + request.patience_s)
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
                    ending = await backend.call(replace(request.invocation, call_id=public_id(key)), execution)
            except NotDispatchedError:
                ending = None
            except GatewayError as refusal:
                refusal.drop_trace()
                ending = refusal
            except Exception:
                log.exception("a call failed inside the gateway after it may have reached a tool server")
            if ending is not None:
                run = Run.of(backend.name, metadata, tool)
                if isinstance(ending, ToolResult):
                    if not await self._outcomes.settle(key, ending, run):
                        ending = await self._outcomes.settled(key) or ending  # it was cancelled meanwhile
                else:  # a call with an id can be repeated
                    delivered = request.call.call_id is not None or not execution.is_detached
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
            call_id=public_id(key),
            key=key,
            group=metadata.group,
            config_ids=request.tool.route.config_ids,
            run=deferred.run,
        )
        result = await backend.dispatch(invocation, self._callback_url(key, deferred.run), execution)
        if result is None:
            with suppress(StateUnavailable):  # this only completes the record
                await self._state.advance(key, (DISPATCHING,), ACCEPTED)
            if deferred.cancel_after_s:
                self.cancel_in(self.seconds_until(started_at + deferred.cancel_after_s), key, backend.name, metadata)
        return result

    def cancel_in(self, seconds: float, key: CallKey, backend: str, metadata: CallMetadata) -> None:
        """Cancels a call after so many seconds, unless it is over then or waits for its user."""
        self.in_background(self._cancel_after(seconds, key, backend, metadata))

    async def _cancel_after(self, seconds: float, key: CallKey, backend: str, metadata: CallMetadata) -> None:
        try:
            record = await self._state.wait(key, seconds)
            if record is not None and record.state <= ACCEPTED and await self._outcomes.settle(key, OUTLASTED):
                await self.abort(key, backend, metadata, OUTLASTED)
        except StateUnavailable:
            log.warning("a call that took too long could not be cancelled", extra={"backend": backend})

    async def abort(self, key: CallKey, backend: str, metadata: CallMetadata, ending: ToolResult) -> None:
        """Stops the execution of a call that has ended, and cancels it at its tool server if that is possible."""
        self._stop(key, ending)
        adapter = self._backends.get(backend)
        if adapter is not None and adapter.deferred and metadata.deferred is not None:
            await adapter.cancel(key, metadata.deferred.run, metadata.group)

    def _stop(self, key: CallKey, ending: Ending) -> None:
        """Stops the execution of a call, if it runs here."""
        execution = self._executions.pop(key, None)
        if execution is not None:
            execution.stop(ending)

    def look_again(self, key: CallKey) -> None:
        """Reads the record of a call that another process has changed; stops a call that was cancelled there."""
        execution = self._executions.get(key)
        if execution is not None:
            self.in_background(self._look_at(execution))

    async def _look_at(self, execution: Execution) -> None:
        with suppress(StateUnavailable):  # then it goes on, as if the cancellation had come too late
            record = await self._state.get(execution.key)
            status = status_of(record)
            if isinstance(status, ToolResult) and status in (CANCELLED, WITHDRAWN):
                self._stop(execution.key, status)
            elif is_answered(record):
                self.note_answer(execution.key)

    def note_answer(self, key: CallKey) -> None:
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

    def seconds_until(self, deadline: float) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, deadline - self._loop.time())
