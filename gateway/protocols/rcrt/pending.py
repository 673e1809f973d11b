"""The calls an RCRT server has taken and not answered yet: matched with events, and polled for as insurance.

Events are lost, repeated and late; a response may exist and never be announced. The first one found counts, whichever
way it was found; `settle` ignores every further one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from gateway.core.backoff import Backoff
from gateway.core.errors import unavailable
from gateway.core.model import CallKey, ToolResult, public_id
from gateway.core.ports import DispatchGate, Outcomes
from gateway.net.client import Kind, TransportError
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.protocols.rcrt.answers import FAILURES, BrokenAnswerError
from gateway.protocols.rcrt.client import RcrtClient
from gateway.protocols.rcrt.stream import BreadcrumbStream

log = logging.getLogger("gateway.backends")

MAX_PARALLEL_POLLS = 8  # after a reconnect every waiting call is polled for, and the server must live through it
# Steps of workflows wait for places in the very runner in which the workflow itself holds one. A runner of November
# 2025 has five places; four workflows at once were seen to block each other until all timed out.
MAX_PARALLEL_WORKFLOWS = 2
RESPONSES_PER_POLL = 5  # of one call; several runners may each have answered
UNTAGGED_PER_POLL = 50


@dataclass(slots=True, kw_only=True, eq=False)
class PendingCall:
    """A run of a call whose outcome is looked for."""

    key: CallKey
    run: str
    idempotent: bool = False
    is_workflow: bool = False
    place: asyncio.TimerHandle | None = None  # of a workflow that holds one: the timer that ends that
    crumb_ids: set[str] = field(default_factory=set)  # known breadcrumbs of its request, seldom more than one
    nudge: asyncio.Event = field(default_factory=asyncio.Event)  # it is to be polled for soon
    watch: asyncio.Task[None] | None = None
    settling: asyncio.Task[None] | None = None
    request_id: str = field(init=False)  # of its request, which the response repeats

    def __post_init__(self) -> None:
        self.request_id = rcrt.request_id(self.key, self.run)


class PendingCalls:
    """Looks for outcomes until they are found, given up, or no longer worth looking for."""

    def __init__(self, client: RcrtClient, stream: BreadcrumbStream, outcomes: Outcomes, *, cleanup: bool) -> None:
        self._client = client
        self._timings = client.timings
        self._stream = stream
        self._outcomes = outcomes
        self._cleanup = cleanup
        self._calls: dict[CallKey, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}  # by every id that a response may name
        self._tasks: set[asyncio.Task[None]] = set()
        self._polling = asyncio.Semaphore(MAX_PARALLEL_POLLS)
        self._workflows = asyncio.Semaphore(MAX_PARALLEL_WORKFLOWS)
        self._untagged_at = float("-inf")

    def __len__(self) -> int:
        return len(self._calls)

    async def take_place(self, call: PendingCall, timeout_s: float, gate: DispatchGate | None) -> None:
        """Waits until one more workflow may run; it holds its place until its call is forgotten, or for `workflow_s`.

        Raises BACKEND_UNAVAILABLE, and what its `gate` raises.
        """
        has_to_wait = self._workflows.locked()
        if gate is not None and has_to_wait:
            await gate.on_queued()
        try:
            async with asyncio.timeout(timeout_s):
                await self._workflows.acquire()
        except TimeoutError:
            raise unavailable("too many workflows run") from None
        loop = asyncio.get_running_loop()
        call.place = loop.call_later(self._timings.workflow_s, self.free_place, call)
        if gate is not None and has_to_wait:
            await gate.before_send()

    def free_place(self, call: PendingCall) -> None:
        """Gives back the place of a workflow, if it holds one."""
        if call.place is not None:
            call.place.cancel()
            call.place = None
            self._workflows.release()

    def add(self, call: PendingCall) -> None:
        """Begins to look, before the request is sent: its answer may overtake its acknowledgement.

        An earlier run of the same call is over by now, and its outcome must not end this one.
        """
        if (earlier := self._calls.get(call.key)) is not None:
            self.forget(earlier)
        self._calls[call.key] = self._by_id[call.request_id] = call
        call.watch = asyncio.create_task(self._watch(call))

    def resume(self, key: CallKey, run: str) -> None:
        """Polls for a run soon, and begins to look for its outcome unless it is looked for already."""
        call = PendingCall(key=key, run=run)
        if (earlier := self._by_id.get(call.request_id)) is None:
            self.add(call)
        (earlier or call).nudge.set()

    def created(self, request_id: str, crumb_id: str) -> None:
        """Notes the breadcrumb of a request that is stored; a response may name it."""
        if crumb_id and (call := self._by_id.get(request_id)) is not None:
            call.crumb_ids.add(crumb_id)
            self._by_id[crumb_id] = call

    async def make_sure(self, call: PendingCall, *, within_s: float) -> None:
        """Looks for a request that may not have been stored, and ends its call if it was not.

        Returns once that is known, and after `within_s` at the latest; then the search continues in the background.
        """
        task = self._spawn(self._make_sure(call))
        await asyncio.wait([task], timeout=max(within_s, 0.0))

    async def _make_sure(self, call: PendingCall) -> None:
        """Counts only searches that were answered: while the server is away they say nothing."""
        backoff, absent = Backoff(*self._timings.look_s), 0
        while absent < self._timings.looks:
            await asyncio.sleep(backoff.next_s())
            if call.crumb_ids or self._calls.get(call.key) is not call:  # it was found, or is over
                return
            try:
                async with self._polling:
                    crumb_id = await self._client.find_request(call.request_id)
            except FAILURES:
                continue
            if crumb_id is not None:
                self.created(call.request_id, crumb_id)
                return
            absent += 1
        if self._calls.get(call.key) is not call:
            return
        extra = {"backend": self._client.name, "toolgate_call_id": public_id(call.key)}
        log.warning("a request was not stored", extra=extra)
        await self._end(call, rcrt.not_stored(idempotent=call.idempotent))

    def cancel(self, key: CallKey) -> None:
        """Stops looking for any run of a call; but not of a workflow, which goes on and holds its place."""
        call = self._calls.get(key)
        if call is not None and not call.is_workflow:
            self.forget(call)

    def forget(self, call: PendingCall) -> None:
        """Stops looking for this run, unless it has stopped already."""
        if self._calls.get(call.key) is not call:
            return
        del self._calls[call.key]
        for name in (call.request_id, *call.crumb_ids):
            self._by_id.pop(name, None)
        if call.watch is not None:
            call.watch.cancel()
        self.free_place(call)

    def nudge(self) -> None:
        """Polls for every call soon: events may have been missed."""
        for call in self._calls.values():
            call.nudge.set()

    async def aclose(self) -> None:
        tasks = self._tasks | {call.watch for call in self._calls.values() if call.watch is not None}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What is found, on the stream or by polling.

    def take_event(self, crumb: rcrt.Breadcrumb) -> None:
        """Takes an event: our own request, or the response to a call."""
        if (request_id := rcrt.request_id_in(crumb)) is not None:
            self.created(request_id, crumb.id)
        self._found(crumb)

    def _found(self, crumb: rcrt.Breadcrumb) -> None:
        """Ends the call a breadcrumb answers, if it is one of ours and not ended yet."""
        for answered in rcrt.ids_answered(crumb):
            call = self._by_id.get(answered)
            if call is not None:
                self._begin(call, crumb)
                return

    def _begin(self, call: PendingCall, crumb: rcrt.Breadcrumb | None) -> None:
        """Begins to end a call, unless that is under way; should it fail, the next poll tries again."""
        if call.settling is None or call.settling.done():
            call.settling = self._spawn(self._settle(call, crumb))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an outcome could not be stored", extra={"backend": self._client.name}, exc_info=error)

    async def _settle(self, call: PendingCall, crumb: rcrt.Breadcrumb | None) -> None:
        """Ends a call with what a response says; None stands for one that cannot be read.

        An event is but a hint: a call ends with a broken answer only if that is what the server has stored.
        """
        context = crumb.context if crumb is not None else None
        result = rcrt.decode_response(context, idempotent=call.idempotent)
        if crumb is not None and result.failure is rcrt.BROKEN:
            try:
                record = await self._client.read(crumb.id)
            except FAILURES:
                return
            whole = rcrt.decode_crumb(record)
            context = whole.context if whole is not None else None
            result = rcrt.decode_response(context, idempotent=call.idempotent)
        if self._calls.get(call.key) is not call:  # it is over, or its next run has begun
            return
        if result.failure is rcrt.BROKEN:
            extra = {"backend": self._client.name, "toolgate_call_id": public_id(call.key)}
            log.warning("a tool server gave a broken answer", extra=extra)
        await self._end(call, result)
        if self._cleanup:
            for crumb_id in call.crumb_ids if crumb is None else {crumb.id, *call.crumb_ids}:
                try:
                    await self._client.delete(crumb_id)
                except FAILURES as exc:  # it stays, which does no harm
                    extra = {"backend": self._client.name, "reason": str(exc)}
                    log.info("a breadcrumb was not deleted", extra=extra)

    async def _end(self, call: PendingCall, result: ToolResult) -> None:
        if await self._outcomes.is_open(call.key, call.run):
            await self._outcomes.settle(call.key, result)
        self.forget(call)

    # Polling.

    async def _watch(self, call: PendingCall) -> None:
        timings, since = self._timings, monotonic()
        while (age_s := monotonic() - since) < timings.watch_s:
            first_s, last_s = timings.insurance_s if self._stream.is_up else timings.poll_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(age_s / 4, first_s), last_s, timings.watch_s - age_s)):
                    await call.nudge.wait()
            call.nudge.clear()
            if not call.is_workflow and not await self._outcomes.is_open(call.key, call.run):
                break  # it was ended elsewhere, by its caller or by its deadline
            async with self._polling:
                await self._poll(call)
            await asyncio.sleep(timings.poll_s[0] / 2)  # however often it is nudged
        call.watch = None  # it ends here, and must not be cancelled by `forget`
        self.forget(call)

    async def _poll(self, call: PendingCall) -> None:
        """Looks for the response to one call, and from time to time for responses without a tag."""
        tag = rcrt.ANSWER_TAG + call.request_id
        try:
            self._search(await self._client.find(rcrt.TOOL_RESPONSE, tag, limit=RESPONSES_PER_POLL, context=True))
        except FAILURES as exc:
            if isinstance(exc, BrokenAnswerError) or (isinstance(exc, TransportError) and exc.kind is Kind.TOO_LARGE):
                self._begin(call, None)  # nothing but the response to this call is in that list
        if monotonic() - self._untagged_at < self._timings.untagged_s:
            return
        self._untagged_at = monotonic()
        with contextlib.suppress(*FAILURES):
            self._search(await self._client.find(rcrt.TOOL_RESPONSE, "error", limit=UNTAGGED_PER_POLL, context=True))

    def _search(self, crumbs: Sequence[rcrt.Breadcrumb | None]) -> None:
        for crumb in reversed(crumbs):  # the oldest first
            if crumb is not None:
                self._found(crumb)
