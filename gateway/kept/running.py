"""Kept calls that run in this process, each in a task that outlives its caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace

from gateway.admission import GivenUpError
from gateway.errors import GatewayError
from gateway.kept.attempt import Asked, Attempt, Ending, tells_more
from gateway.kept.endings import Endings, Run
from gateway.kept.preference import NO_PREFERENCE
from gateway.kept.standing import BROKEN, CANCELLED, OUTLASTED, PREFIX, STOPPED, Note, standing_of
from gateway.model import ToolResult
from gateway.ports import AsyncBackend, Backend
from gateway.state.port import ACCEPTED, DISPATCHING, State, StateUnavailable

log = logging.getLogger("gateway.calls")

FINISH_S = 5.0  # at the end, for calls whose callers have gone


class Running:
    """Runs them, by their keys, and stops them. `callback_url` makes the address for the outcome of a call."""

    def __init__(
        self,
        state: State,
        endings: Endings,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str, str], str],
    ) -> None:
        self._state = state
        self._endings = endings
        self._backends = backends
        self._callback_url = callback_url
        self._attempts: dict[str, Attempt] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time

    def tasks(self) -> set[asyncio.Task[None]]:
        """Those in which a call runs."""
        return {attempt.task for attempt in self._attempts.values() if attempt.task is not None}

    async def aclose(self) -> None:
        """Lets calls whose callers have gone finish, for a moment."""
        running = self.tasks()
        if running:
            await asyncio.wait(running, timeout=FINISH_S)
        for attempt in list(self._attempts.values()):
            attempt.stop(STOPPED)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*running, *self._background, return_exceptions=True)

    def follow(self, key: str, note: Note, asked: Asked, asked_at: float) -> Coroutine[Any, Any, Ending]:
        """Begins to run a call; what is returned waits as long as its caller for the end."""
        attempt = self._attempts[key] = Attempt(key, self._state)
        work = self._attempt(attempt, key, note, asked, asked_at)
        waits_for_end = not asked.tool.backend.asynchronous and (asked.preference is NO_PREFERENCE or asked.stays)
        # One without an id of the caller's is in a task of its own, for its end is kept if its caller leaves.
        if waits_for_end and asked.keep is not None and asked.call.call_id is not None:
            attempt.task = asked.keep()  # that of the request: one of its own would cost a tenth of the call
            return work
        attempt.task = self._loop.create_task(work)
        return attempt.wait(None if waits_for_end else self.until(asked_at + asked.patience_s))

    async def _attempt(self, attempt: Attempt, key: str, note: Note, asked: Asked, asked_at: float) -> Ending:
        """Runs a call that its caller may leave; nothing of what it brings is lost."""
        backend = asked.tool.backend
        run = Run(backend.name, note.tool, note.begun_s, asked.tool)
        ending: Ending = BROKEN
        try:
            try:
                if backend.asynchronous:
                    ending = await self._dispatch(attempt, note, asked, asked_at)
                else:
                    ending = await backend.call(replace(asked.invocation, call_id=PREFIX + key), attempt)
            except (GatewayError, GivenUpError) as unsent:
                ending = _ending_of(unsent)
            except Exception:
                log.exception("a call failed inside the gateway after it may have reached a tool server")
            if type(ending) is ToolResult and not await self._endings.settle(key, ending, run):
                ending = await self._endings.settled(key) or ending  # it was cancelled meanwhile
            elif isinstance(ending, GatewayError):
                told = asked.call.call_id is not None or not attempt.is_left  # who has an id of its own asks again
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

    async def _dispatch(self, attempt: Attempt, note: Note, asked: Asked, asked_at: float) -> ToolResult | None:
        """Hands a call over; None if the outcome comes later. Raises as `AsyncBackend.dispatch`."""
        key, backend, later = attempt.key, cast(AsyncBackend, asked.tool.backend), note.later
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
            with suppress(StateUnavailable):  # it completes the record only
                await self._state.advance(key, (DISPATCHING,), ACCEPTED)
            if later.cancel_after_s:
                self.cancel_in(self.until(asked_at + later.cancel_after_s), key, backend.name, note)
        return result

    def cancel_in(self, seconds: float, key: str, backend: str, note: Note) -> None:
        """Has a call cancelled that is not over, nor waits for its user, after so long."""
        self.in_background(self._cancel_after(seconds, key, backend, note))

    async def _cancel_after(self, seconds: float, key: str, backend: str, note: Note) -> None:
        try:
            record = await self._state.wait(key, seconds)
            if record is not None and record.state <= ACCEPTED and await self._endings.settle(key, OUTLASTED):
                await self.give_up(key, backend, note, OUTLASTED)
        except StateUnavailable:
            log.warning("a call that took too long could not be cancelled", extra={"backend": backend})

    async def give_up(self, key: str, backend: str, note: Note, ending: ToolResult) -> None:
        """Has nobody wait for a call any more, neither here nor, if it can be told, at the tool server."""
        self._stop(key, ending)
        adapter = self._backends.get(backend)
        if adapter is not None and adapter.asynchronous and note.later is not None:
            await cast(AsyncBackend, adapter).cancel(PREFIX + key, note.later.run, note.group)

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

    async def _look_at(self, attempt: Attempt) -> None:
        with suppress(StateUnavailable):  # then it goes on, as one that was asked too late
            record = await self._state.get(attempt.key)
            if standing_of(record) == CANCELLED:
                self._stop(attempt.key, CANCELLED)
            elif tells_more(record):
                attempt.hear()

    def answered(self, key: str) -> None:
        """What becomes of a call has come, or a consent that it needs."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.hear()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Does some work until it is done, or until everything ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def until(self, deadline: float) -> float:
        """The seconds that are left, never less than none."""
        return max(0.0, deadline - self._loop.time())


def _ending_of(unsent: GatewayError | GivenUpError) -> GatewayError | None:
    """What becomes of a call of which nothing was sent; None: it is over or somebody else has it, its record tells."""
    if isinstance(unsent, GivenUpError):
        return None
    unsent.drop_trace()
    return unsent
