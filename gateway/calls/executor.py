"""Kept calls that run in this process, each in a task that outlives its caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from gateway.admission import NotDispatchedError
from gateway.calls.execution import CallRequest, Ending, Execution, tells_more
from gateway.calls.outcomes import OutcomeRecorder, Run
from gateway.calls.preference import NO_PREFERENCE
from gateway.calls.status import BROKEN, CANCELLED, OUTLASTED, PREFIX, STOPPED, CallMetadata, status_of
from gateway.errors import GatewayError
from gateway.model import ToolResult
from gateway.ports import Backend, DeferredBackend
from gateway.state.port import ACCEPTED, DISPATCHING, State, StateUnavailable

log = logging.getLogger("gateway.calls")

FINISH_S = 5.0  # at the end, for calls whose callers have gone
# After the outcome, which says as much. Tool servers that run a tool inside the request may still be at work, and the
# framework of some ends that when they are hung up on.
ACKNOWLEDGED_WITHIN_S = 1.0


class Executor:
    """Runs calls, found by their keys, and stops them. `callback_url` is as in `Calls`."""

    def __init__(
        self,
        state: State,
        endings: OutcomeRecorder,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str, str], str],
    ) -> None:
        self._state = state
        self._endings = endings
        self._backends = backends
        self._callback_url = callback_url
        self._attempts: dict[str, Execution] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time

    def tasks(self) -> set[asyncio.Task[None]]:
        """Those in which a call runs of which no outcome has come, nor a consent that it needs."""
        attempts = self._attempts.values()
        return {attempt.task for attempt in attempts if attempt.task is not None and not attempt.answered}

    async def aclose(self) -> None:
        """Lets calls whose callers have gone finish, for a moment."""
        if running := self.tasks():
            await asyncio.wait(running, timeout=FINISH_S)
        late = list(self._attempts.values())
        for attempt in late:
            attempt.stop(STOPPED)
        for task in self._background:
            task.cancel()
        tasks = [attempt.task for attempt in late if attempt.task is not None]
        await asyncio.gather(*tasks, *self._background, return_exceptions=True)

    def follow(self, key: str, note: CallMetadata, asked: CallRequest, asked_at: float) -> Coroutine[Any, Any, Ending]:
        """Begins to run a call; what is returned waits for its end as long as its caller does."""
        attempt = self._attempts[key] = Execution(key, self._state)
        work = self._attempt(attempt, note, asked, asked_at)
        waits_for_end = not asked.tool.backend.deferred and (asked.preference is NO_PREFERENCE or asked.stays)
        # With `respond-async` a call without an id outlives its caller too: it runs in a task of its own.
        if waits_for_end and asked.keep is not None and asked.call.call_id is not None:
            attempt.task = asked.keep()  # that of the request: one of its own would cost a tenth of the call
            return work
        attempt.task = self._loop.create_task(work)
        return attempt.wait(None if waits_for_end else self.until(asked_at + asked.patience_s))

    async def _attempt(self, attempt: Execution, note: CallMetadata, asked: CallRequest, asked_at: float) -> Ending:
        """Runs a call to its end and writes that down, even if its caller leaves."""
        key, backend = attempt.key, asked.tool.backend
        run = Run(backend.name, note.tool, note.begun_s, asked.tool)
        ending: Ending = BROKEN
        try:
            try:
                if backend.deferred:
                    ending = await self._dispatch(backend, attempt, note, asked, asked_at)
                else:
                    ending = await backend.call(replace(asked.invocation, call_id=PREFIX + key), attempt)
            except (GatewayError, NotDispatchedError) as unsent:
                ending = _ending_of(unsent)
            except Exception:
                log.exception("a call failed inside the gateway after it may have reached a tool server")
            if type(ending) is ToolResult and not await self._endings.settle(key, ending, run):
                ending = await self._endings.settled(key) or ending  # it was cancelled meanwhile
            elif isinstance(ending, GatewayError):
                told = asked.call.call_id is not None or not attempt.is_left  # with an id it can ask again
                await self._endings.refuse(key, ending, run, told=told)
        except StateUnavailable:  # a call whose result is at hand does not fail for it
            log.warning("the state is away while a call runs")
        except asyncio.CancelledError:
            if not attempt.was_stopped():
                raise
            ending = attempt.ending
        finally:
            if self._attempts.get(key) is attempt:
                del self._attempts[key]
                attempt.ending = ending
        return attempt.ending

    async def _dispatch(
        self, backend: DeferredBackend, attempt: Execution, note: CallMetadata, asked: CallRequest, asked_at: float
    ) -> ToolResult | None:
        """Hands a call over; None if the outcome comes later. Raises as `DeferredBackend.dispatch`."""
        key, later = attempt.key, note.later
        assert later is not None  # as in the note of every call of such a backend
        invocation = replace(
            asked.invocation,
            call_id=PREFIX + key,
            group=note.group,
            config_ids=asked.tool.route.config_ids,
            run=later.run,
        )
        result = await backend.dispatch(invocation, self._callback_url(key, later.run), attempt)
        if result is None:
            with suppress(StateUnavailable):  # this only completes the record
                await self._state.advance(key, (DISPATCHING,), ACCEPTED)
            if later.cancel_after_s:
                self.cancel_in(self.until(asked_at + later.cancel_after_s), key, backend.name, note)
        return result

    def cancel_in(self, seconds: float, key: str, backend: str, note: CallMetadata) -> None:
        """Has a call cancelled after so many seconds, unless it is over then or waits for its user."""
        self.in_background(self._cancel_after(seconds, key, backend, note))

    async def _cancel_after(self, seconds: float, key: str, backend: str, note: CallMetadata) -> None:
        try:
            record = await self._state.wait(key, seconds)
            if record is not None and record.state <= ACCEPTED and await self._endings.settle(key, OUTLASTED):
                await self.give_up(key, backend, note, OUTLASTED)
        except StateUnavailable:
            log.warning("a call that took too long could not be cancelled", extra={"backend": backend})

    async def give_up(self, key: str, backend: str, note: CallMetadata, ending: ToolResult) -> None:
        """Has nobody wait for a call any more, neither here nor, if it can be told, at the tool server."""
        self._stop(key, ending)
        adapter = self._backends.get(backend)
        if adapter is not None and adapter.deferred and note.later is not None:
            await adapter.cancel(PREFIX + key, note.later.run, note.group)

    def _stop(self, key: str, ending: ToolResult) -> None:
        """Ends the run of a call, if it runs here."""
        attempt = self._attempts.pop(key, None)
        if attempt is not None:
            attempt.stop(ending)

    def touched(self, key: str) -> None:
        """Another process has done something to a call: if it was cancelled there, its run here is over."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            self.in_background(self._look_at(attempt))

    async def _look_at(self, attempt: Execution) -> None:
        with suppress(StateUnavailable):  # then it goes on, as one that was asked too late
            record = await self._state.get(attempt.key)
            if status_of(record) == CANCELLED:
                self._stop(attempt.key, CANCELLED)
            elif tells_more(record):
                self._answer(attempt)

    def answered(self, key: str) -> None:
        """What becomes of a call has come, or a consent that it needs."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            self._answer(attempt)

    def _answer(self, attempt: Execution) -> None:
        """Has nobody wait until a tool server says that it took a call; it is listened to for a moment all the same."""
        attempt.hear()
        if not attempt.answered:
            attempt.answered = True
            self._loop.call_later(ACKNOWLEDGED_WITHIN_S, self._hang_up, attempt)

    def _hang_up(self, attempt: Execution) -> None:
        if self._attempts.get(attempt.key) is attempt:  # else it is over, and its task may go on with something else
            attempt.stop(None)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Does some work until it is done, or until everything ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def until(self, deadline: float) -> float:
        """The seconds that are left, never less than none."""
        return max(0.0, deadline - self._loop.time())


def _ending_of(unsent: GatewayError | NotDispatchedError) -> GatewayError | None:
    """The ending of a call of which nothing was sent; None if it is over or another replica has it."""
    if isinstance(unsent, NotDispatchedError):
        return None
    unsent.drop_trace()
    return unsent
