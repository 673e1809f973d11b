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

from gateway.attempt import Asked, Attempt, Ending
from gateway.callnames import CallNames, OpenCalls
from gateway.endings import Endings
from gateway.errors import GatewayError
from gateway.kept import (
    BROKEN,
    CANCELLED,
    GONE,
    OUTLASTED,
    PREFIX,
    STOPPED,
    Consent,
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
from gateway.orphans import adopt_orphans
from gateway.ports import AsyncBackend, Backend, Caller
from gateway.state.port import (
    CallState,
    Conflict,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    Record,
    State,
    StateUnavailable,
)
from gateway.state.sealing import Digester

log = logging.getLogger("gateway.calls")

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
        self._open = OpenCalls(self._names)
        self.group_of = self._names.group

    async def start(self) -> None:
        """Begins to look after the calls of replicas that died."""
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time
        self._in_background(adopt_orphans(self._state, self._backends))

    async def aclose(self) -> None:
        """Lets calls whose callers have gone finish, for a moment."""
        running = [attempt.task for attempt in self._running.values()]
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
        deadline = self._loop.time() + asked.patience_s
        while True:
            kept = await self._begin(asked, deadline)
            if kept is not None:
                return kept

    async def _begin(self, asked: Asked, deadline: float) -> Kept | None:
        """Begins a call, or finds it begun. None: whoever began it took that back, so that it may be begun again."""
        new, note = self._new(asked)
        key = new.key
        standing: Standing | GatewayError
        try:
            begun = await self._state.begin(new)
        except StateUnavailable:
            return kept_as(key, note, new.backend, unavailable())
        match begun:
            case Created(record):
                key, standing = record.key, await self._follow(record, note, asked, deadline)
            case Exists(record):
                key, note = record.key, note_of(record) if record.note else note
                standing = standing_of(record) or await self._join(key, deadline)
            case Expired() if asked.call.call_id is None:
                standing = GONE  # it waited for its user for too long
            case Conflict() | Expired() | Full():
                standing = refusal_of(begun)
        if asked.call.call_id is None and standing is not None:
            self._open.note(asked.caller.principal, asked.call, key if isinstance(standing, Consent) else None)
        return None if isinstance(standing, Gone) else kept_as(key, note, new.backend, standing)

    async def look(self, call_id: str, caller: Caller) -> Kept | None:
        """How a call of this caller's stands; None if there is none of that id. Raises BACKEND_UNAVAILABLE."""
        try:
            record = await self._owned(call_id, caller)
        except StateUnavailable as exc:
            raise unavailable() from exc
        return None if record is None else kept_by(record)

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
            return kept_by(await self._state.get(record.key) or record)
        except StateUnavailable as exc:
            raise unavailable() from exc

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
        call, principal = asked.call, asked.caller.principal
        prints = self._names.fingerprints(call)
        if call.call_id is not None:
            keys = self._names.keys(principal, call)
        else:
            keys = (self._open.key_of(principal, call) or self._names.new_key(),)
        note = Note(
            dialect=asked.dialect,
            spelling=asked.spelling,
            call_id=call.call_id or PREFIX + keys[0],
            tool=asked.tool.definition.id,
            group=asked.invocation.group,
        )
        new = NewCall(
            key=keys[0],
            fingerprint=prints[0],
            principal=self._names.owners(principal)[0],
            backend=asked.tool.backend.name,
            note=note.packed(),
            idempotent=asked.invocation.idempotent,
            older=tuple(zip(keys[1:], prints[1:], strict=False)) if len(keys) > 1 else (),
        )
        return new, note

    async def _owned(self, call_id: str, caller: Caller) -> Record | None:
        """The record of a call by our id, or by the caller's own if that call named no user."""
        if not (call_id.isascii() and call_id.isprintable()):
            return None
        keys = self._names.keys_of_id(caller.principal, call_id)
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

    async def _follow(self, record: Record, note: Note, asked: Asked, deadline: float) -> Standing | GatewayError:
        """Runs a call and waits for it."""
        key = record.key
        if record.note != note.packed():  # of a replica that died before it dispatched the call
            note = note_of(record)
        attempt = self._running[key] = Attempt(self._loop)
        attempt.task = self._loop.create_task(self._attempt(attempt, key, note.group, asked))
        ends_by_itself = asked.stays and not asked.tool.backend.asynchronous
        ending = await attempt.wait(None if ends_by_itself else deadline)
        return ending or await self._join(key, deadline)

    async def _join(self, key: str, deadline: float) -> Standing | GatewayError:
        """Waits for a call that somebody runs."""
        try:
            standing = standing_of(await self._state.wait(key, _until(deadline)))
        except StateUnavailable:
            return None
        return self._endings.parting(key) or standing if isinstance(standing, Gone) else standing

    async def _attempt(self, attempt: Attempt, key: str, group: str, asked: Asked) -> None:
        """Runs a call apart from its caller; nothing of what it brings is lost."""
        backend = asked.tool.backend
        cancel_at = self._loop.time() + asked.invocation.timeout_s
        ending: Ending = BROKEN
        try:
            ending = await self._run(key, replace(asked.invocation, call_id=PREFIX + key, group=group), asked)
        finally:
            if self._running.get(key) is attempt:
                del self._running[key]
            attempt.end(ending)
        if ending is None and backend.asynchronous and asked.tool.route.cancel_on_timeout:
            self._in_background(self._cancel_at(cancel_at, key, backend.name, group))

    async def _run(self, key: str, invocation: Invocation, asked: Asked) -> Ending:
        """Runs a call and writes down what came of it; None if its record tells, now or later."""
        ending: Ending
        try:
            ending = await self._dispatch(key, invocation, asked.tool.backend)
        except GatewayError as refusal:
            ending = refusal
        except Exception:
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            ending = BROKEN
        try:
            return await self._keep(key, ending, keyed=asked.call.call_id is not None)
        except StateUnavailable:  # a call whose result is at hand does not fail for it
            log.warning("the state is away while a call runs")
            return ending

    async def _dispatch(self, key: str, invocation: Invocation, backend: Backend) -> ToolResult | None:
        """Asks the tool server; None if the outcome comes later. Raises GatewayError: the tool did not run."""
        try:
            if not await self._state.advance(key, (CallState.REGISTERED,), CallState.DISPATCHING):
                return None  # cancelled, or taken for abandoned
        except StateUnavailable as exc:
            raise unavailable() from exc
        if not backend.asynchronous:
            return await backend.call(invocation)
        result = await cast(AsyncBackend, backend).dispatch(invocation, self._callback_url(key))
        if result is None:
            with suppress(StateUnavailable):  # it completes the record only
                await self._state.advance(key, (CallState.DISPATCHING,), CallState.ACCEPTED)
        return result

    async def _keep(self, key: str, ending: Ending, *, keyed: bool) -> Ending:
        """Writes down how a call ended; returns what everybody is told."""
        if ending is None:
            return None
        if isinstance(ending, GatewayError):
            await self._endings.refuse(key, ending, keyed=keyed)
            return ending
        if await self._endings.settle(key, ending):
            return ending
        standing = standing_of(await self._state.get(key))  # it was cancelled meanwhile
        return standing if isinstance(standing, ToolResult) else ending

    # Ending it from outside.

    async def _cancel_at(self, when: float, key: str, backend: str, group: str) -> None:
        """Cancels a call that outlasts its timeout; one that waits for its user does not."""
        try:
            record = await self._state.wait(key, _until(when))
            if record is not None and record.state <= CallState.ACCEPTED and await self._endings.settle(key, OUTLASTED):
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


def _until(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())
