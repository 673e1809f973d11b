"""How calls end: each outcome is written down once, or held until it can be, and told to those who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import (
    TOO_LARGE,
    UNTOLD,
    Note,
    can_be_repeated,
    note_of,
    pack,
    pack_note,
    pack_refusal,
    result_of,
    standing_of,
    unpack,
)
from gateway.model import JsonObject, ToolResult
from gateway.routing import PublishedTool
from gateway.state.port import MAX_NOTE_BYTES, UNKNOWN, CallState, OutcomeTooLarge, State, StateUnavailable

NOT_OVER = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED, CallState.AWAITING_USER)


class Run(Struct, frozen=True, gc=False):
    """What is needed to count a run of a tool (its id is the `run` of `Later` and `Invocation`).

    `tool` is the tool's full id, `begun_s` is by `time.time()`, and `published` is the tool itself if it is at hand.
    """

    backend: str
    tool: str
    begun_s: float
    published: PublishedTool | None = None


Ended = Callable[[Run, ToolResult | GatewayError], None]


def run_of(backend: str, note: Note) -> Run:
    return Run(backend, note.tool, note.begun_s)


class Endings:
    """Writes endings into a state. Calls are named by their keys.

    `ended` is told of the end of every run, once, by the replica that wrote it down.
    """

    def __init__(self, state: State, ended: Ended) -> None:
        self._state = state
        self.ended = ended
        self.backlog = Backlog(lambda: state.is_up)

    async def settle(self, key: str, result: ToolResult, run: Run | None = None, *, can_wait: bool = True) -> bool:
        """Ends a call; False if it has ended already, or nobody knows it.

        While the state is away the result is held until it is back, which counts as done. Raises StateUnavailable if
        there is no room for that, or not `can_wait`. `run` spares a look at the record to whoever has it.
        """
        try:
            if result.failure is not None and result.failure.can_retry and await self._give_back(key, result, run):
                return True
            run = run or await self._run(key)
            is_over = await self._state.settle(key, pack(result))
        except OutcomeTooLarge:
            return await self.settle(key, TOO_LARGE, run, can_wait=can_wait)
        except StateUnavailable:
            packed = pack(result)
            if can_wait and self.backlog.hold(key, len(packed), partial(self._settle_later, key, packed)):
                return True
            raise
        if is_over and run is not None:
            self.ended(run, result)
        return is_over

    async def _settle_later(self, key: str, packed: bytes) -> None:
        """Ends a call with a result that was held as text, because as objects it may weigh twenty times as much."""
        result = unpack(packed)
        assert isinstance(result, ToolResult)  # as it was packed
        await self.settle(key, result, can_wait=False)

    async def _give_back(self, key: str, result: ToolResult, run: Run | None) -> bool:
        """Lets a call that failed for now be begun anew, if it is ours and its caller can repeat it.

        With this result on record the retry that it asks for could never succeed.
        """
        record = await self._state.get(key)
        if record is None or record.replica != self._state.replica:
            return False
        if record.state.is_over or not can_be_repeated(record):
            return False
        await self._forget(key, pack(result))
        self.ended(run or run_of(record.backend, note_of(record)), result)
        return True

    async def settled(self, key: str) -> ToolResult | None:
        """How a call has ended that was ended by somebody else. Raises StateUnavailable."""
        standing = standing_of(await self._state.get(key))
        return standing if isinstance(standing, ToolResult) else None

    async def _run(self, key: str) -> Run | None:
        """What is needed to count the run of a call; None if nobody knows, or it was counted as unknown already."""
        record = self._state.held(key) or await self._state.get(key)
        if record is None or record.state is UNKNOWN or not record.note:
            return None
        return run_of(record.backend, note_of(record))

    async def refuse(self, key: str, refusal: GatewayError, run: Run, *, told: bool) -> None:
        """Ends a call that did not run. If its caller is `told` so it is as if it had never begun, else this is kept.

        Raises StateUnavailable.
        """
        if told:
            await self._forget(key, pack_refusal(refusal))
            self.ended(run, refusal)
        else:
            await self.settle(key, result_of(refusal), run)

    async def challenge(self, key: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; from now on this challenge is told, also if there was another before.

        Returns and raises as `settle`.
        """
        try:
            return await self._challenge(key, challenge)
        except StateUnavailable:
            if self.backlog.hold(key, MAX_NOTE_BYTES, lambda: self._challenge(key, challenge)):
                return True
            raise

    async def _challenge(self, key: str, challenge: JsonObject) -> bool:
        record = await self._state.get(key)
        if record is None or not record.note:
            return False
        note = pack_note(replace(note_of(record), challenge=challenge))
        if len(note) > MAX_NOTE_BYTES:
            return await self.settle(key, UNTOLD, can_wait=False)
        return await self._state.advance(key, NOT_OVER, CallState.AWAITING_USER, note=note)

    async def _forget(self, key: str, outcome: bytes) -> None:
        """Lets a call be begun anew; whoever joined it, or looks for its end, is told how this run ended."""
        try:
            await self._state.forget(key, outcome)
        except OutcomeTooLarge:
            await self._state.forget(key)

    async def aclose(self) -> None:
        await self.backlog.aclose()
