"""The life of a call that is kept: registered, run once, joined by its repetitions, remembered.

Calls with a `call_id` of the caller's, calls to tool servers that answer later, and calls whose caller will not wait.
All others never come here. The states are those of `state.port`; tool servers know our calls as `tg-` and the key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace

from gateway.errors import GatewayError
from gateway.kept.attempt import Asked, Attempt, Ending
from gateway.kept.endings import Endings
from gateway.kept.names import CallNames
from gateway.kept.orphans import adopt_orphans
from gateway.kept.standing import (
    BROKEN,
    CANCELLED,
    OUTLASTED,
    PREFIX,
    STOPPED,
    Gone,
    Kept,
    Note,
    Standing,
    kept_as,
    kept_by,
    note_of,
    refusal_of,
    standing_of,
    unavailable,
)
from gateway.model import Invocation, JsonObject, ToolResult
from gateway.ports import AsyncBackend, Backend, Caller
from gateway.state.port import (
    ACCEPTED,
    DISPATCHING,
    DONE,
    REGISTERED,
    CallState,
    Created,
    Exists,
    NewCall,
    Record,
    State,
    StateUnavailable,
)
from gateway.state.sealing import Digester

log = logging.getLogger("gateway.kept.calls")

FINISH_S = 5.0  # at the end, for calls whose callers have gone


class Calls:
    """Runs kept calls, and is where asynchronous backends bring their outcomes (`ports.Outcomes`).

    `callback_url` makes the address for the outcome of the call with a key.
    """

    def __init__(
        self,
        state: State,
        digester: Digester,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str], str],
    ) -> None:
        self._state = state
        self._names = CallNames(digester)
        self._backends = backends
        self._callback_url = callback_url
        self._endings = Endings(state)
        self._running: dict[str, Attempt] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.group_of = self._names.group

    async def start(self) -> None:
        """Begins to look after the calls of replicas that died."""
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time
        self._in_background(adopt_orphans(self._state, self._backends))

    def running(self) -> set[asyncio.Task[None]]:
        """The calls that run here apart from their callers."""
        return {attempt.task for attempt in self._running.values() if attempt.task is not None}

    async def aclose(self) -> None:
        """Lets calls whose callers have gone finish, for a moment."""
        running = [attempt.task for attempt in self._running.values() if attempt.task is not None]
        if running:
            await asyncio.wait(running, timeout=FINISH_S)
        for attempt in list(self._running.values()):
            attempt.stop(STOPPED)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*running, *self._background, return_exceptions=True)
        await self._endings.aclose()

    # The caller's side.

    async def run(self, asked: Asked) -> Kept:
        """Runs, joins or replays a call, as long as its caller waits."""
        asked_at = self._loop.time()
        while True:
            new, note = self._new(asked)
            key = new.key
            standing: Standing | GatewayError
            try:
                begun = await self._state.begin(new)
            except StateUnavailable:
                return kept_as(key, note, new.backend, unavailable())
            if isinstance(begun, Created):
                record = begun.record
                key = record.key
                group = note.group if record.note == new.note else note_of(record).group  # that of a dead replica's
                standing = await self._follow(key, record.state, group, asked, asked_at)
            elif isinstance(begun, Exists):
                record = begun.record
                key, note = record.key, note_of(record) if record.note else note
                standing = standing_of(record)
            else:
                standing = refusal_of(begun)
            if standing is None:
                standing = await self._join(key, asked_at + asked.patience_s)
            if not isinstance(standing, Gone):  # else whoever began it took that back: it may be begun again
                return kept_as(key, note, new.backend, standing)

    async def look(self, call_id: str, caller: Caller) -> Kept | None:
        """How a call of this caller's stands; None if there is none of that id. Raises BACKEND_UNAVAILABLE."""
        try:
            record = await self._owned(call_id, caller)
            return None if record is None else await self._told(record)
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def cancel(self, call_id: str, caller: Caller) -> Kept | None:
        """Ends a call of this caller's unless it is over; the tool server is told if it can be.

        Raises BACKEND_UNAVAILABLE.
        """
        try:
            record = await self._owned(call_id, caller)
            if record is None:
                return None
            if not record.state.is_over and await self._endings.settle(record.key, CANCELLED):
                await self._give_up(record.key, record.backend, note_of(record).group, CANCELLED)
            return await self._told(await self._state.get(record.key) or record)
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def _told(self, record: Record) -> Kept:
        """A call as its caller is told of it; whoever asks it once more is then not told again."""
        kept = kept_by(record)
        if record.state is DONE and record.question is not None and kept.note.challenge is not None:
            with suppress(StateUnavailable):  # then it is told once more
                await self._state.told(record.key)
        return kept

    async def consent_status(self, key: str) -> str:
        """How the consent a call waits for stands: pending, completed or failed."""
        try:
            standing = standing_of(await self._state.get(key))
        except StateUnavailable:
            return "pending"
        if isinstance(standing, ToolResult):
            return "completed" if standing.failure is None else "failed"
        return "failed" if isinstance(standing, Gone) else "pending"

    # The backends' side (`ports.Outcomes`).

    async def settle(self, call_id: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or nobody knows it. Raises StateUnavailable if it cannot wait."""
        return await self._endings.settle(call_id.removeprefix(PREFIX), result)

    async def challenge(self, call_id: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; False and raises as `settle`."""
        return await self._endings.challenge(call_id.removeprefix(PREFIX), challenge)

    # What a call is called.

    def _new(self, asked: Asked) -> tuple[NewCall, Note]:
        call, principal, backend = asked.call, asked.caller.principal, asked.tool.backend
        call_id, question = call.call_id, None
        if call_id is not None:
            owner, key, fingerprint, older = self._names.keyed(principal, call)
        else:
            owner, key, fingerprint, older = self._names.unkeyed(principal, call)
            call_id, question = PREFIX + key, fingerprint if backend.asynchronous else None
        note = Note(
            dialect=asked.dialect,
            spelling=asked.spelling,
            call_id=call_id,
            tool=asked.tool.id,
            group=asked.invocation.group,
        )
        new = NewCall(
            key=key,
            fingerprint=fingerprint,
            principal=owner,
            backend=backend.name,
            note=note.packed(),
            question=question,
            idempotent=asked.invocation.idempotent,
            state=REGISTERED if backend.asynchronous else DISPATCHING,
            older=older,
        )
        return new, note

    async def _owned(self, call_id: str, caller: Caller) -> Record | None:
        """The record of a call by our id, or by the caller's own if that call named no user but the credential's."""
        if not (call_id.isascii() and call_id.isprintable()):
            return None
        keys = self._names.keys_of_id(caller.principal, call_id, caller.user_id)
        if call_id.startswith(PREFIX):
            keys = (call_id.removeprefix(PREFIX), *keys)
        owners = self._names.owners(caller.principal)
        for key in keys:
            try:
                record = await self._state.get(key)
            except ValueError:  # not even shaped like a key
                continue
            if record is not None and record.note and record.principal in owners:
                return record
        return None

    # Running it.

    def _follow(
        self, key: str, state: CallState, group: str, asked: Asked, asked_at: float
    ) -> Coroutine[Any, Any, Ending]:
        """Begins to run a call; what is returned waits for its end, as long as its caller does."""
        attempt = self._running[key] = Attempt()
        work = self._attempt(attempt, key, state, group, asked, asked_at)
        if asked.tool.backend.asynchronous or not asked.stays:
            attempt.task = self._loop.create_task(work)
            return attempt.wait(self._until(asked_at + asked.patience_s))
        if asked.keep is None:
            attempt.task = self._loop.create_task(work)
            return attempt.wait(None)
        attempt.task = asked.keep()  # that of the request: one of its own would cost a tenth of the call
        return work

    async def _join(self, key: str, deadline: float) -> Standing | GatewayError:
        """Waits for a call that somebody runs."""
        try:
            standing = standing_of(await self._state.wait(key, self._until(deadline)))
        except StateUnavailable:
            return None
        return self._endings.parting(key) or standing if isinstance(standing, Gone) else standing

    async def _attempt(
        self, attempt: Attempt, key: str, state: CallState, group: str, asked: Asked, asked_at: float
    ) -> Ending:
        """Runs a call that its caller may leave; nothing of what it brings is lost."""
        tool = asked.tool
        backend, route = tool.backend, tool.route
        ending: Ending = BROKEN
        try:
            invocation = replace(asked.invocation, call_id=PREFIX + key, group=group, config_ids=route.config_ids)
            ending = await self._run(key, state, invocation, backend)
            if isinstance(ending, GatewayError):
                await self._endings.refuse(key, ending, keyed=asked.call.call_id is not None)
            elif ending is not None and not await self._endings.settle(key, ending):
                ending = await self._endings.settled(key) or ending  # it was cancelled meanwhile
        except StateUnavailable:  # a call whose result is at hand does not fail for it
            log.warning("the state is away while a call runs")
        except asyncio.CancelledError:
            if not attempt.was_stopped():
                raise
            ending = attempt.ending
        finally:
            if self._running.get(key) is attempt:
                del self._running[key]
                attempt.ending = ending
        if ending is None and backend.asynchronous and route.cancel_on_timeout:
            self._in_background(self._cancel_at(asked_at + asked.invocation.timeout_s, key, backend.name, group))
        return attempt.ending

    async def _run(self, key: str, state: CallState, invocation: Invocation, backend: Backend) -> Ending:
        """Asks the tool server; None if the record tells how it ended, now or later."""
        try:
            if backend.asynchronous or state is not DISPATCHING:
                return await self._dispatch(key, invocation, backend)
            return await backend.call(invocation)
        except GatewayError as refusal:
            return refusal
        except Exception:
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            return BROKEN

    async def _dispatch(self, key: str, invocation: Invocation, backend: Backend) -> ToolResult | None:
        """Asks the tool server; None if the outcome comes later. Raises GatewayError: the tool did not run."""
        try:
            if not await self._state.advance(key, (REGISTERED,), DISPATCHING):
                return None  # cancelled, or taken for abandoned
        except StateUnavailable as exc:
            raise unavailable() from exc
        if not backend.asynchronous:
            return await backend.call(invocation)
        result = await cast(AsyncBackend, backend).dispatch(invocation, self._callback_url(key))
        if result is None:
            with suppress(StateUnavailable):  # it completes the record only
                await self._state.advance(key, (DISPATCHING,), ACCEPTED)
        return result

    # Ending it from outside.

    async def _cancel_at(self, when: float, key: str, backend: str, group: str) -> None:
        """Cancels a call that outlasts its timeout; one that waits for its user does not."""
        try:
            record = await self._state.wait(key, self._until(when))
            if record is not None and record.state <= ACCEPTED and await self._endings.settle(key, OUTLASTED):
                await self._give_up(key, backend, group, OUTLASTED)
        except StateUnavailable:
            log.warning("a call that took too long could not be cancelled", extra={"backend": backend})

    async def _give_up(self, key: str, backend: str, group: str, ending: ToolResult) -> None:
        """Has nobody wait for a call any more, neither here nor, if it can be told, at the tool server."""
        attempt = self._running.pop(key, None)
        if attempt is not None:
            attempt.stop(ending)
        adapter = self._backends.get(backend)
        if adapter is not None and adapter.asynchronous:
            await cast(AsyncBackend, adapter).cancel(PREFIX + key, group)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _until(self, deadline: float) -> float:
        return max(0.0, deadline - self._loop.time())
